#include "host_blocks.h"

#include <algorithm>

namespace lesson11 {

int default_host_blocks(int device_blocks, int64_t bytes_per_block, int64_t free_bytes) {
  const int64_t fit = free_bytes / 4 / bytes_per_block;
  const int64_t wanted = std::min(int64_t{4} * device_blocks, int64_t{INT32_MAX - 1});
  return static_cast<int>(std::max(std::min(wanted, fit), int64_t{1}));
}

}  // namespace lesson11
