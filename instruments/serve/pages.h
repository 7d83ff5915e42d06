#pragma once

// Files for browsers.

#include <filesystem>
#include <optional>
#include <string>

namespace serve {

/// The file that `path` ("index.html", "js/a.js") names inside `folder`, or its index.html for "".
/// Empty if there is none, or if the path leads out of the folder.
std::optional<std::filesystem::path> file_in(const std::filesystem::path& folder,
                                             const std::string& path);

/// "text/html; charset=utf-8" for .html, and so on.
const char* content_type_of(const std::filesystem::path& file);

}  // namespace serve
