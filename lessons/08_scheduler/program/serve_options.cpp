#include "serve_options.h"

#include <algorithm>

#include "common/base/error.h"

namespace lesson08 {

void check(const ServeOptions& options) {
  check(options.scheduler);
  if (options.pad_decodes_to < 1) {
    kv::user_error("pad_decodes_to {}: wanted at least 1", options.pad_decodes_to);
  }
}

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

int pool_size(int64_t all, const kv::ModelConfig& config, const lesson03::PagedOptions& options,
              const ServeOptions& serve, const kv::Model& model) {
  if (options.num_blocks == 0 && serve.memory_utilization != 0) {
    const auto element = static_cast<int64_t>(size_of(kv::activation_dtype(model.device())));
    return blocks_for_memory(kv::memory_of(model.device()).free, serve.memory_utilization,
                             config.kv_bytes_per_token(element) * options.block_size);
  }
  return lesson03::num_blocks_for(options.num_blocks > 0 ? options.num_blocks : all, options);
}

int most_blocks_of_one(std::span<const kv::Request> requests, int block_size) {
  int64_t most = 1;
  for (size_t i = 0; i < requests.size(); ++i) {
    most = std::max(most, lesson03::blocks_needed(requests.subspan(i, 1), block_size));
  }
  return static_cast<int>(most);
}

}  // namespace lesson08
