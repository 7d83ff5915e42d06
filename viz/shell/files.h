#pragma once

// Scenarios as files: what the shell needs on a desktop.

#include <filesystem>
#include <vector>

#include "viz/shell/shell.h"

namespace viz {

/// Those that ship with the project.
std::vector<Scenario> load_shipped(const std::filesystem::path& project);
/// Save writes `record_file`, Open reads any path.
Outside on_disk(const std::filesystem::path& record_file = "recorded.txt");

}  // namespace viz
