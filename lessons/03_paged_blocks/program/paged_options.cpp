#include "lessons/03_paged_blocks/program/paged_options.h"

#include <algorithm>
#include <bit>

#include "common/base/error.h"
#include "common/base/table.h"
#include "common/model/generation.h"

namespace lesson03 {

void check(const PagedOptions& options) {
  constexpr int kMaxBlockSize = 256;
  const int size = options.block_size;
  if (size < 1 || size > kMaxBlockSize || !std::has_single_bit(static_cast<unsigned>(size))) {
    kv::user_error("block size {}: wanted a power of two from 1 to {}", size, kMaxBlockSize);
  }
  if (options.num_blocks < 0) {
    kv::user_error("num_blocks {}: wanted at least 1, or 0 for as many as needed",
                   options.num_blocks);
  }
}

int num_blocks_for(int64_t needed, const PagedOptions& options) {
  if (options.num_blocks > 0 && needed > options.num_blocks) {
    kv::user_error(
        "the requests need {} of {}, the pool has {}; generate fewer tokens or raise num_blocks",
        kv::count_of(needed, "block"), kv::count_of(options.block_size, "token"),
        options.num_blocks);
  }
  // One less than an int holds: a lesson may want a block of its own beside them.
  if (needed >= INT32_MAX) {
    kv::user_error("the requests need {} blocks, more than can be numbered", needed);
  }
  return options.num_blocks > 0 ? options.num_blocks
                                : static_cast<int>(std::max<int64_t>(needed, 1));
}

int64_t blocks_needed(std::span<const kv::Request> requests, int block_size) {
  int64_t blocks = 0;
  for (const kv::Request& request : requests) {
    blocks += (kv::tokens_to_compute(request) + block_size - 1) / block_size;
  }
  return blocks;
}

}  // namespace lesson03
