#pragma once

// Names and hues for what a page shows: a map from names to things that have a hue.

#include <algorithm>
#include <string>

namespace viz {

/// The first letter from A on that names nothing yet.
template <class Named>
std::string free_name(const Named& named) {
  char c = 'A';
  while (named.contains(std::string(1, c))) ++c;
  return std::string(1, c);
}

/// The smallest hue that nothing has.
template <class Named>
int free_hue(const Named& named) {
  int hue = 0;
  const auto has_it = [&](const auto& entry) { return entry.second.hue == hue; };
  while (std::ranges::any_of(named, has_it)) ++hue;
  return hue;
}

}  // namespace viz
