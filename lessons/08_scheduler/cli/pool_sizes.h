#pragma once

// Sizes of pools.

#include <cstdint>
#include <span>

#include "qwen3/engine.h"

namespace lesson08 {

/// Blocks that fit `utilization` of `free_bytes` beside the null block; at most INT32_MAX - 1.
/// Throws UserError if that is not one block, or unless 0 < utilization <= 1.
int blocks_for_memory(int64_t free_bytes, double utilization, int64_t bytes_per_block);

/// Blocks of the longest request at its end.
int max_blocks_of_one(std::span<const kv::Request> requests, int block_size);

}  // namespace lesson08
