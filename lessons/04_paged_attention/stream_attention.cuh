#pragma once

// Queues the two kernels of streaming attention.

#include <algorithm>

#include "kernels/attention/merge_groups.cuh"
#include "kernels/attention/stream_queries.cuh"
#include "kernels/launch.cuh"
#include "paged_cache.cuh"
#include "paged_plan.h"

namespace lesson04 {

using kv::attention::AttentionPass;
using kv::attention::merge_groups_kernel;
using kv::attention::PartialGroup;
using kv::attention::stream_queries_kernel;
using kv::attention::StreamTile;

/// `workspace` as paged_attention_workspace_bytes() asks for it. Cache: PagedCache or
/// ContiguousCache.
template <int kHeadDim, int kHalves, class Cache>
void launch_stream(const AttentionPass& pass, const Cache& cache, const PagedPlan& plan,
                   int num_seqs, void* workspace, const kv::Stream& stream) {
  constexpr size_t kSharedBytes = sizeof(StreamTile<kHeadDim>);
  static_assert(kSharedBytes <= 48 * 1024);  // more would have to be asked for
  auto* partials = reinterpret_cast<PartialGroup<kHeadDim>*>(static_cast<uint32_t*>(workspace) +
                                                             kv::attention::kMaxCounters);
  const auto heads = static_cast<unsigned>(pass.num_kv_heads);
  const auto blocks = static_cast<unsigned>(num_seqs * plan.blocks_per_seq);
  const auto runs =
      static_cast<unsigned>((plan.max_groups + plan.groups_per_run - 1) / plan.groups_per_run);
  kv::launch_dependent(stream_queries_kernel<kHeadDim, kHalves, Cache>,
                       {dim3(heads, runs, blocks), dim3(32), kSharedBytes, "launching attention"},
                       stream, pass, cache, partials, plan.max_groups, plan.blocks_per_seq,
                       plan.groups_per_run);
  if (plan.max_groups <= 1) return;
  const int max_pairs = plan.max_rows_per_seq * (pass.num_heads / pass.num_kv_heads);
  const auto pairs = static_cast<unsigned>(std::min(plan.pairs_per_block, max_pairs));
  constexpr unsigned kMergeThreads = (kHeadDim + 31) / 32 * 32;
  kv::launch_dependent(
      merge_groups_kernel<kHeadDim>,
      {dim3(heads, pairs, blocks), dim3(kMergeThreads), 0, "launching the merge of attention"},
      stream, pass, partials, plan.max_groups, plan.blocks_per_seq, plan.pairs_per_block);
}

template <int kHeadDim, class Cache>
void launch_stream_queries(const AttentionPass& pass, const Cache& cache, const PagedPlan& plan,
                           int num_seqs, void* workspace, const kv::Stream& stream) {
  if (plan.pairs_per_block == 8) {
    launch_stream<kHeadDim, 1>(pass, cache, plan, num_seqs, workspace, stream);
  } else {
    launch_stream<kHeadDim, 2>(pass, cache, plan, num_seqs, workspace, stream);
  }
}

}  // namespace lesson04
