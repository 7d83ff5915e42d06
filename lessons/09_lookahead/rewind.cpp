#include "rewind.h"

#include <fmt/format.h>

#include <stdexcept>

#include "common/defer.h"

namespace lesson09 {

void rewind(KvCacheManager& manager, BlockPool& pool, int64_t id, int num_tokens) {
  const lesson03::BlockTable& table = manager.table(id);
  lesson06::ComputedBlocks kept;
  for (const int32_t block : table.block_ids()) {  // cached blocks come first
    const lesson06::CachedBlock* const cached = pool.index().block(block);
    if (cached == nullptr) break;
    kept.chain = {kept.chain.num_blocks + 1, cached->prefix};
  }
  const int computed = kept.chain.num_blocks * pool.block_size();
  if (num_tokens < computed || num_tokens > table.num_tokens()) {
    throw std::invalid_argument(
        fmt::format("rewind: request {} is rewound to {} tokens, wanted {} to {}", id, num_tokens,
                    computed, table.num_tokens()));
  }
  const int num_blocks = lesson03::blocks_for(num_tokens, pool.block_size());
  const auto ids = table.block_ids().first(num_blocks);
  kept.block_ids.assign(ids.begin(), ids.end());
  kept.num_tokens = num_tokens;
  // The request ends, and begins again with the blocks that stay. They are held meanwhile.
  pool.touch(kept.block_ids);
  const kv::Defer let_go{[&] { pool.free_blocks(kept.block_ids); }};
  manager.free(id);
  manager.allocate_slots(id, 0, kept);
}

}  // namespace lesson09
