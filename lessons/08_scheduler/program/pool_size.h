#pragma once

// How large a pool may be: a share of the memory that is free.

#include <cstdint>

namespace lesson08 {

/// Blocks that fit `utilization` of `free_bytes`. Throws UserError, with both numbers, if that is
/// not one block, or for a share that is not above 0 and at most 1.
int blocks_for_memory(int64_t free_bytes, double utilization, int64_t bytes_per_block);

}  // namespace lesson08
