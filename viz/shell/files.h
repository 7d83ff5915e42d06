#pragma once

// Scenarios as files: what the shell needs on a desktop.

#include <filesystem>
#include <vector>

#include "viz/shell/shell.h"

namespace viz {

/// Those that ship with the project.
std::vector<Scenario> load_shipped(const std::filesystem::path& project);
/// Save writes a new file into `folder`, "recorded-05-001.txt" for page 05. Open lists the
/// scenarios of this folder, and reads any path.
Outside on_disk(const std::filesystem::path& folder = ".");
/// Whether the desktop doesn't prefer dark windows; false where it has no such setting.
bool is_desktop_light();

}  // namespace viz
