#pragma once

// The report of a road: the versions of one op, from plain to fast, over a few cases.

#include <string>
#include <vector>

namespace kv {

struct RoadCase {
  std::string name;
  double floor_seconds = 0;  // no version can be faster
  /// The amount of a version's work, counted in `unit`. With a unit, the rate is a column of its
  /// own.
  double amount = 0;
  std::string unit = {};  // "GB/s", "TFLOP/s"
};

struct RoadStep {
  std::string idea;
  std::vector<double> seconds;  // of each case; 0 for one that it cannot do
};

struct Road {
  std::string device;
  std::string what;  // said over the table
  std::vector<RoadCase> cases;
  std::vector<RoadStep> steps;
};

/// Prints the table. The JSON has it as well, for the texts (tools/measured.py).
void report_road(const Road& road, const std::string& json_file);

}  // namespace kv
