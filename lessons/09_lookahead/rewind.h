#pragma once

// Takes back the slots of tokens that were only guessed.

#include "lessons/08_scheduler/scheduler.h"

namespace lesson09 {

using lesson06::KvCacheManager;
using lesson07::BlockPool;

/// Takes back the slots of a request's tokens after the first num_tokens. Blocks without a token go
/// back to the pool, the last one first; the request keeps its other blocks. K and V in the slots
/// stay as they are: no row reads them, and the next tokens overwrite them. Throws
/// std::out_of_range for an unknown id. Throws std::invalid_argument if num_tokens is more than the
/// tokens with a slot, or less than those in cached blocks, which were not guessed. A throw changes
/// nothing. `pool` is the manager's.
void rewind(KvCacheManager& manager, BlockPool& pool, int64_t id, int num_tokens);

}  // namespace lesson09
