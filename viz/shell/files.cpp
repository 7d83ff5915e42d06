#include "viz/shell/files.h"

#include <fmt/format.h>

#include <fstream>

#include "common/error.h"

namespace viz {

std::vector<Scenario> load_shipped(const std::filesystem::path& project) {
  std::vector<Scenario> all;
  for (const std::filesystem::path& file : shipped_scenarios(project)) {
    all.push_back(Scenario::load(file));
  }
  return all;
}

Outside on_disk(const std::filesystem::path& record_file) {
  const std::string name = record_file.string();
  return {.save = "Save",
          .save_tooltip = "Write what was done here as a scenario to " + name,
          .keep =
              [record_file, name](const Scenario& recorded) {
                std::ofstream out(record_file);
                out << recorded.text();
                out.close();
                if (!out) kv::user_error("cannot write {}", name);
                return "saved to " + name;
              },
          .open = [](const std::string& path) { return Scenario::load(path); },
          .open_first = name};
}

}  // namespace viz
