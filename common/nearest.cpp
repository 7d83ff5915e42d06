#include "common/nearest.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace kv {
namespace {

/// Insertions, deletions, replacements and swaps of neighbours that make `b` of `a`.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);  // distances of a's first i characters to each start of b
  std::iota(row.begin(), row.end(), size_t{0});
  std::vector<size_t> two_before, before;  // those of a's first i - 2 and i - 1 characters
  for (size_t i = 1; i <= a.size(); ++i) {
    two_before = std::exchange(before, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = a[i - 1] == b[j - 1];
      row[j] = std::min({before[j - 1] + (same ? 0 : 1), before[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], two_before[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string nearest(const std::string& word, std::span<const std::string> names) {
  std::string nearest;
  const size_t letters = word.size() - std::min(word.find_first_not_of('-'), word.size());
  size_t least = letters / 3 + 1;  // more than a third of the letters is no typo
  for (const std::string& name : names) {
    const bool end_is_missing = letters > 0 && name.starts_with(word);
    const size_t distance = end_is_missing ? 0 : edit_distance(word, name);
    if (distance >= least) continue;
    nearest = name;
    least = distance;
  }
  return nearest;
}

}  // namespace kv
