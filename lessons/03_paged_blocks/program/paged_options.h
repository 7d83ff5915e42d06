#pragma once

// What can be set for an engine with blocks, and how large its pool is then.

#include <cstdint>
#include <span>

#include "common/model/engine.h"

namespace lesson03 {

struct PagedOptions {
  int block_size = 16;  // tokens per KV block, a power of two up to 256
  int num_blocks = 0;   // of the pool; 0: as many as the requests of a generate() need
  kv::EngineOptions engine{};
};

/// Throws UserError for a block size that is no power of two up to 256, or a negative number of
/// blocks.
void check(const PagedOptions& options);

/// Blocks that the requests fill together when each has reached its end.
int64_t blocks_needed(std::span<const kv::Request> requests, int block_size);

/// The size of a pool for work that needs so many blocks: options.num_blocks, or just them. Throws
/// UserError, with both numbers, if that is too few, or more than can be numbered.
int num_blocks_for(int64_t needed, const PagedOptions& options);

}  // namespace lesson03
