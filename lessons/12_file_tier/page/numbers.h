#pragma once

// K and V without a model, for the pages of this lesson and the next: K of a token is its number,
// and V its place.

#include <algorithm>
#include <cstdint>
#include <span>

#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "lessons/08_scheduler/scheduler.h"

namespace lesson12 {

/// One layer with one head of one number.
inline kv::ModelConfig one_number() {
  kv::ModelConfig config;
  config.num_layers = config.num_heads = config.num_kv_heads = config.head_dim = 1;
  return config;
}

/// A pass computes the next num_tokens tokens of a request. `table`: its blocks.
inline void write_numbers(lesson03::PagedKvCache& cache, std::span<const int32_t> table,
                          const lesson08::ScheduledRequest& request, int num_tokens) {
  const lesson03::KvBlocks layer = cache.layer(0);
  const int size = cache.block_size();
  for (int i = request.num_computed; i < request.num_computed + num_tokens; ++i) {
    const int32_t block = table[i / size];
    *lesson03::k_row<float>(layer, block, i % size) = static_cast<float>(request.tokens[i]);
    *lesson03::v_row<float>(layer, block, i % size) = static_cast<float>(i);
  }
}

/// Whether the block has the K of these tokens.
inline bool has_numbers(lesson03::PagedKvCache& cache, int32_t block,
                        std::span<const int32_t> tokens) {
  const std::span held(lesson03::k_row<const float>(cache.layer(0), block, 0), tokens.size());
  return std::ranges::equal(tokens, held,
                            [](int32_t token, float k) { return static_cast<float>(token) == k; });
}

}  // namespace lesson12
