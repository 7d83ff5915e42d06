#pragma once

// How the CUDA twin of paged_attention cuts its work. Plain arithmetic: the plan depends on the
// arguments' sizes alone, so a CUDA graph that was captured with it stays right while the lengths
// in device memory change, and no plan changes a bit of the result.

#include <cstddef>
#include <cstdint>

#include "lessons/02_flat_cache/decode_plan.h"
#include "paged_attention.h"

namespace lesson04 {

struct PagedPlan {
  enum class Kernel {
    kSpread,  // few queries, little K and V: lesson 02's kernel, a group of keys for each CTA
    kStream,  // few queries, much K and V: a warp streams whole groups, then groups are merged
    kMany,    // many queries (a prefill): lesson 01's kernel
  };
  Kernel kernel;
  int pairs_per_block;   // pairs (query, head) that share K and V in a warp: 8 or 16
  int blocks_per_seq;    // of these, of the sequence with the most queries
  int max_groups;        // groups of keys, of the longest sequence
  int64_t num_blocks;    // blocks of pairs, over all sequences and KV heads
  int max_rows_per_seq;  // query rows of the sequence with the most
  int groups_per_run;    // groups that a CTA of kStream takes one after the other

  explicit PagedPlan(const PagedAttentionArgs& args);

  /// 0 if no sequence has more than one group.
  size_t workspace_bytes(int head_dim) const;
};

}  // namespace lesson04
