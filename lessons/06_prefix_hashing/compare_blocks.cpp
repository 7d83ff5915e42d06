#include "compare_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "common/parallel.h"

namespace lesson06 {
namespace {

using lesson05::Region;

void check_id(const BlockRegions& regions, int32_t id) {
  if (id >= 0 && id < regions.num_blocks()) return;
  throw std::out_of_range(fmt::format("compare_blocks: there is no block {}, the cache has {}", id,
                                      regions.num_blocks()));
}

int64_t num_differing(const std::byte* a, const std::byte* b, size_t bytes) {
  int64_t count = 0;
  for (size_t at = 0; at < bytes; at += sizeof(float)) {
    count += std::memcmp(a + at, b + at, sizeof(float)) != 0;
  }
  return count;
}

}  // namespace

void check_compared(const CompareBlocksArgs& args) {
  const auto as_large = [](const Region& a, const Region& b) { return a.bytes == b.bytes; };
  if (!std::ranges::equal(args.first->list(), args.second->list(), as_large)) {
    throw std::invalid_argument("compare_blocks: the caches' blocks have different shapes");
  }
  for (const BlockPair& pair : args.pairs) {
    check_id(*args.first, pair.first);
    check_id(*args.second, pair.second);
  }
}

std::vector<int64_t> compare_blocks_cpu(const CompareBlocksArgs& args) {
  check_compared(args);
  const std::span<const Region> first = args.first->list(), second = args.second->list();
  std::vector<int64_t> counts(args.pairs.size(), 0);
  kv::parallel_for(std::ssize(counts), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (size_t r = 0; r < first.size(); ++r) {
        counts[i] += num_differing(first[r].block(args.pairs[i].first),
                                   second[r].block(args.pairs[i].second), first[r].bytes);
      }
    }
  });
  return counts;
}

}  // namespace lesson06
