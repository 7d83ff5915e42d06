#include "instruments/serve/pages.h"

#include <algorithm>
#include <utility>

namespace serve {

std::optional<std::filesystem::path> file_in(const std::filesystem::path& folder,
                                             const std::string& path) {
  if (folder.empty() || path.find('\0') != path.npos) return std::nullopt;
  const std::filesystem::path relative = path.empty() ? "index.html" : path;
  const bool inside = relative.is_relative() &&
                      std::ranges::none_of(relative, [](const auto& part) { return part == ".."; });
  std::error_code error;
  if (!inside || !std::filesystem::is_regular_file(folder / relative, error)) return std::nullopt;
  return folder / relative;
}

const char* content_type_of(const std::filesystem::path& file) {
  constexpr std::pair<const char*, const char*> kTypes[] = {
      {".html", "text/html; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".mjs", "text/javascript; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".json", "application/json"},
      {".svg", "image/svg+xml"},
      {".png", "image/png"},
      {".wasm", "application/wasm"}};
  const std::string extension = file.extension().string();
  for (const auto& [ending, type] : kTypes) {
    if (extension == ending) return type;
  }
  return "application/octet-stream";
}

}  // namespace serve
