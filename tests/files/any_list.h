#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "tests/support/shortened.h"

namespace kvtest {

/// Whether `holds` of 100 lists, of up to 99 elements that `any` makes from random numbers: empty,
/// or the shortest list found that it does not hold of. KV_RANDOM_SEED sets the seed.
template <class Any, class Holds>
std::string wrong_list(const Any& any, const Holds& holds) {
  Random random(static_cast<uint64_t>(number_from("KV_RANDOM_SEED", 1)));
  for (size_t most = 1; most <= 100; ++most) {
    std::vector<decltype(any(random))> list(static_cast<size_t>(random.below(most)));
    for (auto& element : list) element = any(random);
    if (holds(list)) continue;
    return fmt::format("{}", shortened(list, [&](const auto& fewer) { return !holds(fewer); }));
  }
  return {};
}

/// An element that is a number from which more are made.
inline uint64_t any_number(Random& random) { return random.next(); }

}  // namespace kvtest
