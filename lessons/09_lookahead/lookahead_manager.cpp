#include "lookahead_manager.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace lesson09 {

void LookaheadManager::rewind(int64_t id, int num_tokens) {
  auto& [table, chain] = held(id);
  const int computed = chain.num_blocks * block_size();
  if (num_tokens < computed || num_tokens > table.num_tokens()) {
    throw std::invalid_argument(
        fmt::format("LookaheadManager: request {} is rewound to {} tokens, wanted {} to {}", id,
                    num_tokens, computed, table.num_tokens()));
  }
  const auto kept = static_cast<size_t>(lesson03::blocks_for(num_tokens, block_size()));
  lesson03::BlockTable shorter(block_size());
  shorter.reserve(table.block_ids().size());  // it will soon be as long again
  shorter.extend(num_tokens, table.block_ids().first(kept));
  pool_->free_blocks(table.block_ids().subspan(kept));
  table = std::move(shorter);
}

}  // namespace lesson09
