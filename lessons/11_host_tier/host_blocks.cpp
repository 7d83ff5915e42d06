#include "host_blocks.h"

namespace lesson11 {

HostBlocks::HostBlocks(const PagedKvCache& cache, kv::Device device, int num_ids)
    : num_ids_(num_ids),
      bytes_per_block_(static_cast<size_t>(cache.bytes_per_block())),
      buffer_(device, static_cast<size_t>(num_ids) * bytes_per_block_) {}

}  // namespace lesson11
