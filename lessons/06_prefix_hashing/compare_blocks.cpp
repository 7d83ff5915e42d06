#include "compare_blocks.h"

#include <fmt/format.h>

#include <bit>
#include <stdexcept>

#include "common/parallel.h"

namespace lesson06 {
namespace {

using lesson03::KvBlocks;
using lesson03::PagedKvCache;

void check_id(PagedKvCache& cache, int32_t id) {
  if (id >= 0 && id < cache.num_blocks()) return;
  throw std::out_of_range(fmt::format("compare_blocks: there is no block {}, the cache has {}", id,
                                      cache.num_blocks()));
}

int64_t num_differing(const void* first, const void* second, int64_t num_elements) {
  const auto* a = static_cast<const float*>(first);
  const auto* b = static_cast<const float*>(second);
  int64_t count = 0;
  for (int64_t i = 0; i < num_elements; ++i) {
    count += std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]);
  }
  return count;
}

}  // namespace

void check_compared(const CompareBlocksArgs& args) {
  const KvBlocks a = args.first->layer(0), b = args.second->layer(0);
  if (a.block_size != b.block_size || a.num_kv_heads != b.num_kv_heads ||
      a.head_dim != b.head_dim || args.first->num_layers() != args.second->num_layers()) {
    throw std::invalid_argument("compare_blocks: the caches' blocks have different shapes");
  }
  for (const BlockPair& pair : args.pairs) {
    check_id(*args.first, pair.first);
    check_id(*args.second, pair.second);
  }
}

std::vector<int64_t> compare_blocks_cpu(const CompareBlocksArgs& args) {
  check_compared(args);
  const KvBlocks shape = args.first->layer(0);
  const int64_t elements = int64_t{shape.block_size} * shape.num_kv_heads * shape.head_dim;
  std::vector<int64_t> counts(args.pairs.size(), 0);
  kv::parallel_for(static_cast<int64_t>(counts.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      for (int layer = 0; layer < args.first->num_layers(); ++layer) {
        const auto a = args.first->block(layer, args.pairs[i].first);
        const auto b = args.second->block(layer, args.pairs[i].second);
        counts[i] += num_differing(a.k, b.k, elements) + num_differing(a.v, b.v, elements);
      }
    }
  });
  return counts;
}

}  // namespace lesson06
