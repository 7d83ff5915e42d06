#pragma once

// What can be chosen when requests are served, and how large the pool is then.

#include <cstdint>
#include <span>

#include "common/model/model.h"
#include "lessons/03_paged_blocks/program/paged_options.h"
#include "lessons/08_scheduler/scheduler.h"

namespace lesson08 {

struct ServeOptions {
  SchedulerOptions scheduler{};
  lesson07::FreeOrder free_order = lesson07::FreeOrder::kAppend;
  lesson06::BlockHasher hasher = {};
  bool caching = true;
  /// Told what happens to the cache. A new pool begins empty, and it is told so.
  lesson07::EventSink on_cache_event = {};
  /// Not 0, and num_blocks is 0: the pool takes this share of the memory that is free when it is
  /// made, but at most as many blocks as can be numbered.
  double memory_utilization = 0;
  /// Greedy requests only: the device finds the largest logit, and logits never come to the host.
  /// A completion's digest is then that of no logits.
  bool choose_on_device = false;
  /// A pass of decodes is padded to a multiple of so many rows: a CUDA graph that was captured at
  /// that size can be replayed.
  int pad_decodes_to = 1;
};

/// Throws UserError for those that make no sense.
void check(const ServeOptions& options);

/// Blocks that fit `utilization` of `free_bytes`. Throws UserError, with both numbers, if that is
/// not one block, or for a share that is not above 0 and at most 1.
int blocks_for_memory(int64_t free_bytes, double utilization, int64_t bytes_per_block);

/// Blocks of a pool for requests that need `all` of them together: options.num_blocks; or if it is
/// 0 a share of the memory, or all. `config` has the layers of a block. Throws UserError for more
/// than can be numbered.
int pool_size(int64_t all, const kv::ModelConfig& config, const lesson03::PagedOptions& options,
              const ServeOptions& serve, const kv::Model& model);

/// Blocks of the longest request at its end.
int most_blocks_of_one(std::span<const kv::Request> requests, int block_size);

}  // namespace lesson08
