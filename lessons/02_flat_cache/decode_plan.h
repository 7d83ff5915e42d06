#pragma once

// How the CUDA twin of decode_attention cuts its work. Plain arithmetic: the plan depends on the
// arguments' sizes alone, so a CUDA graph that was captured with it stays right while the lengths
// in device memory change, and no plan changes a bit of the result.

#include <cstddef>
#include <cstdint>

#include "decode_attention.h"
#include "kernels/attention/plan.h"

namespace lesson02 {

using kv::attention::kMaxCounters;
using kv::attention::kMaxFewPairs;
using kv::attention::kPairsPerBlock;

struct DecodePlan {
  bool few_queries;    // else: lesson 01's kernel, which needs no workspace
  int blocks_per_seq;  // blocks of 16 pairs, of the sequence with the most queries
  int max_groups;      // groups of keys, of the longest sequence
  int64_t num_blocks;  // of pairs, over all sequences and KV heads

  explicit DecodePlan(const DecodeAttentionArgs& args);

  /// Bytes of the partial result of one block of pairs and one group of keys: acc, m and l in fp32.
  static size_t partial_bytes(int head_dim);
  /// 0 if no sequence has more than one group.
  size_t workspace_bytes(int head_dim) const;
};

}  // namespace lesson02
