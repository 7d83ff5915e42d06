#include "viz/shell/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "common/error.h"

namespace viz {

std::vector<Scenario> load_shipped(const std::filesystem::path& project) {
  std::vector<Scenario> all;
  for (const std::filesystem::path& file : shipped_scenarios(project)) {
    all.push_back(Scenario::load(file));
  }
  return all;
}

bool is_desktop_light() {
  std::FILE* const said =
      popen("gsettings get org.gnome.desktop.interface color-scheme 2>/dev/null", "r");
  if (said == nullptr) return false;
  char text[32] = {};  // 'default', 'prefer-dark' or 'prefer-light', in quotes
  const bool any = std::fgets(text, sizeof(text), said) != nullptr;
  return pclose(said) == 0 && any && std::string_view(text).find("dark") == std::string_view::npos;
}

Outside on_disk(const std::filesystem::path& folder) {
  const std::filesystem::path full = std::filesystem::absolute(folder).lexically_normal();
  const auto keep = [full](const Scenario& recorded) {
    std::filesystem::path file;
    for (int number = 1; file.empty() || std::filesystem::exists(file); ++number) {
      file = full / fmt::format("recorded-{}-{:03}.txt", recorded.page, number);
    }
    std::ofstream out(file);
    out << recorded.text();
    out.close();
    if (!out) kv::user_error("cannot write {}; begin in a folder of yours", file.string());
    return file.string();
  };
  const auto list = [folder] {
    constexpr size_t kMost = 12;
    std::vector<std::string> names;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
      std::string first;
      if (entry.path().extension() != ".txt" || !entry.is_regular_file(none)) continue;
      std::ifstream in(entry.path());
      if (std::getline(in, first) && first.starts_with("page ")) {
        names.push_back(entry.path().lexically_normal().string());
      }
    }
    std::ranges::sort(names);
    if (names.size() > kMost) names.erase(names.begin(), names.end() - kMost);
    return names;
  };
  return {
      .save = "Save",
      .save_tooltip = "Write what was done here as a scenario, into a new file in " + full.string(),
      .keep = keep,
      .list = list,
      .open = [](const std::string& path) { return Scenario::load(path); }};
}

}  // namespace viz
