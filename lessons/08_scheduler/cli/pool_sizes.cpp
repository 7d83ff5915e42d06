#include "pool_sizes.h"

#include <algorithm>

#include "common/error.h"
#include "lessons/03_paged_blocks/engine.h"

namespace lesson08 {

int blocks_for_memory(int64_t free_bytes, double utilization, int64_t bytes_per_block) {
  if (!(utilization > 0 && utilization <= 1)) {
    kv::user_error("memory utilization {}: wanted more than 0, and at most 1", utilization);
  }
  const double share = static_cast<double>(free_bytes) * utilization;
  const double blocks = share / static_cast<double>(bytes_per_block) - 1;  // and the null block
  if (blocks < 1) {
    kv::user_error(
        "{:.1f} MiB are free, and {:g} of that does not hold one block of {:.2f} MiB beside the "
        "null block; use smaller blocks or more of the memory",
        static_cast<double>(free_bytes) / 0x1p20, utilization,
        static_cast<double>(bytes_per_block) / 0x1p20);
  }
  return static_cast<int>(std::min(blocks, double{INT32_MAX - 1}));
}

int max_blocks_of_one(std::span<const kv::Request> requests, int block_size) {
  int64_t most = 1;
  for (size_t i = 0; i < requests.size(); ++i) {
    most = std::max(most, lesson03::blocks_needed(requests.subspan(i, 1), block_size));
  }
  return static_cast<int>(most);
}

}  // namespace lesson08
