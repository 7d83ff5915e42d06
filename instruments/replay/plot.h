#pragma once

// Hit rate against pool size as an SVG, a line for each policy.

#include <string>
#include <vector>

namespace replay {

struct Line {
  std::string name;
  std::vector<double> hit_rates;  // for each pool size, 0 to 1
};

/// `pool_blocks` rise. The axis is logarithmic.
std::string plot(const std::string& title, const std::vector<int>& pool_blocks,
                 const std::vector<Line>& lines);

}  // namespace replay
