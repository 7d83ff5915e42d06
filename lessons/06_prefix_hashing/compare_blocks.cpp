#include "compare_blocks.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

#include "common/parallel.h"

namespace lesson06 {
namespace {

using lesson03::KvBlocks;
using lesson03::PagedKvCache;
using lesson03::Piece;

void check_id(PagedKvCache& cache, int32_t id) {
  if (id >= 0 && id < cache.num_blocks()) return;
  throw std::out_of_range(fmt::format("compare_blocks: there is no block {}, the cache has {}", id,
                                      cache.num_blocks()));
}

int64_t num_differing(const Piece& a, const Piece& b, int element_bytes) {
  int64_t count = 0;
  for (int at = 0; at < a.bytes; at += element_bytes) {
    count += std::memcmp(a.data + at, b.data + at, static_cast<size_t>(element_bytes)) != 0;
  }
  return count;
}

}  // namespace

void check_compared(const CompareBlocksArgs& args) {
  const KvBlocks a = args.first->layer(0), b = args.second->layer(0);
  if (a.block_size != b.block_size || a.num_kv_heads != b.num_kv_heads ||
      a.head_dim != b.head_dim || a.element_bytes != b.element_bytes ||
      args.first->num_layers() != args.second->num_layers()) {
    throw std::invalid_argument("compare_blocks: the caches' blocks have different shapes");
  }
  for (const BlockPair& pair : args.pairs) {
    check_id(*args.first, pair.first);
    check_id(*args.second, pair.second);
  }
}

std::vector<int64_t> compare_blocks_cpu(const CompareBlocksArgs& args) {
  check_compared(args);
  std::vector<int64_t> counts(args.pairs.size(), 0);
  kv::parallel_for(static_cast<int64_t>(counts.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      for (int layer = 0; layer < args.first->num_layers(); ++layer) {
        const KvBlocks first = args.first->layer(layer), second = args.second->layer(layer);
        for (int index = 0; index < first.num_pieces(); ++index) {
          counts[i] +=
              num_differing(first.piece(args.pairs[i].first, index),
                            second.piece(args.pairs[i].second, index), first.element_bytes);
        }
      }
    }
  });
  return counts;
}

}  // namespace lesson06
