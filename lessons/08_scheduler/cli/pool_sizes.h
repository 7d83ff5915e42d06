#pragma once

// How large a pool shall be.

#include <cstdint>
#include <span>

#include "qwen3/engine.h"

namespace lesson08 {

/// Blocks that fit `utilization` of `free_bytes`, but at most as many as can be numbered. Throws
/// UserError, with both numbers, if that is not one block, or for a share that is not above 0 and
/// at most 1.
int blocks_for_memory(int64_t free_bytes, double utilization, int64_t bytes_per_block);

/// Blocks of the longest request at its end.
int max_blocks_of_one(std::span<const kv::Request> requests, int block_size);

}  // namespace lesson08
