#pragma once

// Taking slots back: those of tokens that were only guessed.

#include "lessons/08_scheduler/scheduler.h"

namespace lesson09 {

using lesson07::BlockPool;
using lesson08::KvCacheManager;

/// Only the first num_tokens tokens of a request keep their slots. Blocks without a token go back
/// to the pool, the last one first; the blocks that stay are the same ones. The K and V in the
/// slots stay as they are: no row reads them, and the next tokens are written over them. Throws
/// std::out_of_range for an unknown id, and std::invalid_argument unless num_tokens is at most the
/// tokens with a slot, and at least those in blocks that can be found, which were not guessed.
/// Nothing has changed then. `pool` is the manager's.
void rewind(KvCacheManager& manager, BlockPool& pool, int64_t id, int num_tokens);

}  // namespace lesson09
