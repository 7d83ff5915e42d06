#include "lookahead_manager.h"

#include <fmt/format.h>

#include <stdexcept>

namespace lesson09 {

void LookaheadManager::rewind(int64_t id, int num_tokens) {
  auto& [table, chain] = held(id);
  const int computed = chain.num_blocks * block_size();
  if (num_tokens < computed || num_tokens > table.num_tokens()) {
    throw std::invalid_argument(
        fmt::format("LookaheadManager: request {} is rewound to {} tokens, wanted {} to {}", id,
                    num_tokens, computed, table.num_tokens()));
  }
  const int kept = lesson03::blocks_for(num_tokens, block_size());
  pool_->free_blocks(table.block_ids().subspan(static_cast<size_t>(kept)));
  table.truncate(num_tokens);
}

}  // namespace lesson09
