#include "programs/road_report.h"

#include <nlohmann/json.hpp>

#include "common/console.h"
#include "common/table.h"
#include "programs/report.h"

namespace kv {
namespace {

std::string table_of(const Road& road) {
  std::vector<std::string> header{"step"};
  for (const RoadCase& c : road.cases) {
    header.push_back(c.name);
    if (!c.unit.empty()) header.push_back(c.unit);
  }
  Table table(header);
  for (size_t i = 0; i < road.steps.size(); ++i) {
    std::vector<std::string> row{fmt::format("{}  {}", i + 1, road.steps[i].idea)};
    for (size_t j = 0; j < road.cases.size(); ++j) {
      const RoadCase& c = road.cases[j];
      const double seconds = road.steps[i].seconds[j];
      const bool done = seconds > 0;
      row.push_back(
          done ? fmt::format("{:.1f} ({:.0f} %)", seconds * 1e6, 100 * c.floor_seconds / seconds)
               : "-");
      if (c.unit.empty()) continue;
      const double per_unit = c.unit == "TFLOP/s" ? 1e12 : 1e9;
      row.push_back(done ? fmt::format("{:.0f}", c.amount / seconds / per_unit) : "-");
    }
    table.add(row);
  }
  return table.to_string();
}

}  // namespace

void report_road(const Road& road, const std::string& json_file) {
  const Console console(json_file);
  console.print("{}\n{}\n\n{}", road.device, road.what, table_of(road));
  nlohmann::json cases = nlohmann::json::array();
  for (const RoadCase& c : road.cases) {
    cases.push_back({{"case", c.name}, {"floor_seconds", c.floor_seconds}, {"amount", c.amount}});
  }
  nlohmann::json steps = nlohmann::json::array();
  for (const RoadStep& s : road.steps) steps.push_back({{"idea", s.idea}, {"seconds", s.seconds}});
  write_json(json_file, {{"device", road.device}, {"cases", cases}, {"steps", steps}});
}

}  // namespace kv
