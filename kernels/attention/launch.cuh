#pragma once

// Queues attention over rows in bf16, found by an address (rows.cuh); called by a lesson's fast.cu.

#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/attention/head_dims.cuh"
#include "kernels/attention/many/many_queries.cuh"
#include "kernels/attention/merge_groups.cuh"
#include "kernels/attention/plan.h"
#include "kernels/attention/spread/spread_queries.cuh"
#include "kernels/attention/stream/stream_queries.cuh"
#ifdef KV_SM90A
#include "kernels/attention/runs/run_queries.cuh"
#include "kernels/attention/warpgroups/warpgroup_queries.cuh"
#endif
#include "kernels/launch.cuh"

namespace kv::attention {

/// Asks for more shared memory than the 48 KiB that a kernel gets by default.
template <class Kernel>
bool ask_for_shared(Kernel kernel, size_t bytes) {
  cuda_backend::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           static_cast<int>(bytes)),
                      "asking for the attention kernel's shared memory");
  return true;
}

/// Whether the kernels for sm_90a are compiled in and can run here.
inline bool on_hopper() {
#ifdef KV_SM90A
  return cuda_backend::is_hopper();
#else
  return false;
#endif
}

inline int64_t max_pairs(const Queries& queries) {
  return static_cast<int64_t>(queries.max_rows_per_seq) *
         (queries.num_heads / queries.num_kv_heads);
}

#ifdef KV_SM90A
template <class Address>
BoxedTiles<Address> tiles_of(const Address& address) {
  const LayerRows layer = address.layer();
  return {address, layer_maps(layer, std::min(layer.contiguous_tokens, kTileTokens), 1)};
}

template <int kHeadDim, int kWarpgroups, class Tiles>
void launch_groups(const Queries& queries, const Tiles& tiles, const Stream& stream) {
  constexpr size_t kSharedBytes = sizeof(WarpgroupShared<kHeadDim, kWarpgroups>);
  static_assert(kSharedBytes <= 227 * 1024);
  const auto kernel = warpgroup_queries_kernel<kHeadDim, kWarpgroups, Tiles>;
  static const bool ready = ask_for_shared(kernel, kSharedBytes);
  static_cast<void>(ready);
  constexpr int kPairs = kWarpgroups * kWarpgroupPairs;
  const dim3 grid(static_cast<unsigned>(queries.num_kv_heads),
                  static_cast<unsigned>((max_pairs(queries) + kPairs - 1) / kPairs),
                  static_cast<unsigned>(queries.num_seqs));
  launch_dependent(
      kernel,
      {grid, dim3((kWarpgroups + 1) * kWarpgroupThreads), kSharedBytes, "launching attention"},
      stream, queries, tiles);
}

/// Path kWarpgroups.
template <int kHeadDim, class Address>
void launch_warpgroups(const Queries& queries, const Address& address, const Stream& stream) {
  // Two warpgroups share K and V if enough CTAs for every SM remain.
  const int64_t blocks = (max_pairs(queries) + 2 * kWarpgroupPairs - 1) / (2 * kWarpgroupPairs);
  if (blocks * queries.num_kv_heads * queries.num_seqs >= cuda_backend::num_sms()) {
    launch_groups<kHeadDim, 2>(queries, tiles_of(address), stream);
  } else {
    launch_groups<kHeadDim, 1>(queries, tiles_of(address), stream);
  }
}
#endif

/// Path kMany.
template <int kHeadDim, class Address>
void launch_many(const Queries& queries, const Address& address, const Stream& stream) {
  constexpr size_t kSharedBytes = sizeof(ManyShared<kHeadDim>);
  static_assert(kSharedBytes <= 99 * 1024);
  const auto kernel = many_queries_kernel<kHeadDim, Address>;
  static const bool ready = ask_for_shared(kernel, kSharedBytes);
  static_cast<void>(ready);
  const int64_t pairs = max_pairs(queries);
  const dim3 grid(static_cast<unsigned>((pairs + kManyPairs - 1) / kManyPairs),
                  static_cast<unsigned>(queries.num_kv_heads),
                  static_cast<unsigned>(queries.num_seqs));
  launch_dependent(kernel, {grid, dim3(kManyThreads), kSharedBytes, "launching attention"}, stream,
                   queries, address);
}

/// Path kSpread.
template <int kHeadDim, class Address>
void launch_spread(const Queries& queries, const Plan& plan, const Address& address,
                   void* workspace, const Stream& stream) {
  auto* counters = static_cast<unsigned int*>(workspace);
  const bool clusters = plan.in_clusters && cuda_backend::compute_major() >= 9;
  const SpreadWorkspace groups{.counters = counters,
                               .partials = counters + kWorkspaceCounters,
                               .max_groups = plan.max_groups,
                               .in_clusters = clusters};
  const dim3 grid(static_cast<unsigned>(plan.max_groups),
                  static_cast<unsigned>(queries.num_kv_heads),
                  static_cast<unsigned>(queries.num_seqs * plan.blocks_per_seq));
  const auto kernel = queries.window > 0 ? spread_queries_kernel<kHeadDim, true, Address>
                                         : spread_queries_kernel<kHeadDim, false, Address>;
  launch_dependent(kernel,
                   {grid, dim3(kSpreadThreads), 0, "launching attention", clusters ? grid.x : 1},
                   stream, queries, address, groups, plan.blocks_per_seq);
}

template <int kHeadDim>
PartialGroup<kHeadDim>* partials_of(void* workspace) {
  return reinterpret_cast<PartialGroup<kHeadDim>*>(static_cast<unsigned int*>(workspace) +
                                                   kWorkspaceCounters);
}

template <int kHeadDim>
void launch_merge(const Queries& queries, const Plan& plan, void* workspace, const Stream& stream) {
  constexpr int kSlices = (kHeadDim + kMergeElements - 1) / kMergeElements;
  const auto slices = static_cast<unsigned>(queries.num_kv_heads * kSlices);
  const auto blocks = static_cast<unsigned>(queries.num_seqs * plan.blocks_per_seq);
  const auto pairs =
      static_cast<unsigned>(std::min<int64_t>(plan.pairs_per_block, max_pairs(queries)));
  const auto kernel = queries.window > 0 ? merge_groups_kernel<kHeadDim, true>
                                         : merge_groups_kernel<kHeadDim, false>;
  launch_dependent(kernel,
                   {dim3(slices, pairs, blocks), dim3(32), 0, "launching the merge of attention"},
                   stream, queries, partials_of<kHeadDim>(workspace), plan.max_groups,
                   plan.blocks_per_seq, plan.pairs_per_block);
}

#ifdef KV_SM90A
template <int kHeadDim, int kHeads, class Tiles>
void launch_runs_of_heads(const Queries& queries, const Plan& plan, const Tiles& tiles,
                          void* workspace, const Stream& stream) {
  using Shape = RunShape<kHeads>;
  constexpr size_t kSharedBytes =
      sizeof(RunShared<kHeadDim, RunSlots<kHeadDim, kHeads, Tiles::kAreFp8>>);
  static_assert(Shape::kCtas * (kSharedBytes + 1024) <= 228 * 1024);
  const auto kernel = run_queries_kernel<kHeadDim, kHeads, Tiles>;
  static const bool ready = ask_for_shared(kernel, kSharedBytes);
  static_cast<void>(ready);
  const int parts = queries.num_kv_heads / kHeads;
  const int ctas = std::max(1, cuda_backend::num_sms() * Shape::kCtas / parts);
  const int64_t length = (int64_t{queries.num_seqs} * plan.max_groups + ctas - 1) / ctas;
  const bool merges_apart = merges_runs_apart(plan.max_groups, length);
  const RunWorkspace<kHeadDim> pieces{
      .counters = static_cast<unsigned int*>(workspace),
      .partials = workspace == nullptr ? nullptr : partials_of<kHeadDim>(workspace),
      .max_groups = plan.max_groups,
      .merges_apart = merges_apart};
  launch_dependent(kernel,
                   {dim3(static_cast<unsigned>(ctas), static_cast<unsigned>(parts)),
                    dim3(Shape::kThreads), kSharedBytes, "launching attention"},
                   stream, queries, tiles, pieces);
  if (merges_apart) launch_merge<kHeadDim>(queries, plan, workspace, stream);
}

/// `elements`: of the KV heads of a CTA.
template <class Address>
RunTiles<Address> run_tiles_of(const Address& address, int elements) {
  return {address, layer_maps(address.layer(), kQuarterTokens, 2 * elements / kSwizzledRowBytes)};
}

/// Path kRuns.
template <int kHeadDim, class Address>
void launch_runs(const Queries& queries, const Plan& plan, const Address& address, void* workspace,
                 const Stream& stream) {
  if (run_heads(queries.num_kv_heads) == 8) {
    launch_runs_of_heads<kHeadDim, 8>(queries, plan, run_tiles_of(address, 8 * kHeadDim), workspace,
                                      stream);
  } else {
    launch_runs_of_heads<kHeadDim, 4>(queries, plan, run_tiles_of(address, 4 * kHeadDim), workspace,
                                      stream);
  }
}
#endif

/// Path kStream, for 8 (kHalves 1) or 16 pairs at a time.
template <int kHeadDim, int kHalves, class Address>
void launch_stream(const Queries& queries, const Plan& plan, const Address& address,
                   void* workspace, const Stream& stream) {
  constexpr size_t kSharedBytes = sizeof(StreamTile<kHeadDim>);
  static_assert(kSharedBytes <= 48 * 1024);  // more would need ask_for_shared()
  const auto heads = static_cast<unsigned>(queries.num_kv_heads);
  const auto blocks = static_cast<unsigned>(queries.num_seqs * plan.blocks_per_seq);
  const auto runs =
      static_cast<unsigned>((plan.max_groups + plan.groups_per_run - 1) / plan.groups_per_run);
  const auto kernel = queries.window > 0 ? stream_queries_kernel<kHeadDim, kHalves, true, Address>
                                         : stream_queries_kernel<kHeadDim, kHalves, false, Address>;
  launch_dependent(kernel,
                   {dim3(heads, runs, blocks), dim3(32), kSharedBytes, "launching attention"},
                   stream, queries, address, partials_of<kHeadDim>(workspace), plan.max_groups,
                   plan.blocks_per_seq, plan.groups_per_run);
  if (plan.max_groups > 1) launch_merge<kHeadDim>(queries, plan, workspace, stream);
}

/// True if there are kernels for Hopper with this head_dim. Only then does Plan choose them.
template <int kHeadDim>
inline constexpr bool kHasHopperKernels = kHeadDim == 64 || kHeadDim == 128;

/// Path kMany or kWarpgroups.
template <int kHeadDim, class Address>
void launch_for_many(Plan::Path path, const Queries& queries, const Address& address,
                     const Stream& stream) {
#ifdef KV_SM90A
  if constexpr (kHasHopperKernels<kHeadDim>) {
    if (path == Plan::Path::kWarpgroups) {
      return launch_warpgroups<kHeadDim>(queries, address, stream);
    }
  }
#endif
  static_cast<void>(path);
  launch_many<kHeadDim>(queries, address, stream);
}

/// Path kStream or kRuns.
template <int kHeadDim, class Address>
void launch_for_much(const Queries& queries, const Plan& plan, const Address& address,
                     void* workspace, const Stream& stream) {
#ifdef KV_SM90A
  if constexpr (kHasHopperKernels<kHeadDim>) {
    if (path_in_blocks(plan.path, address.layer().contiguous_tokens) == Plan::Path::kRuns) {
      return launch_runs<kHeadDim>(queries, plan, address, workspace, stream);
    }
  }
#endif
  if (plan.pairs_per_block == 8) {
    launch_stream<kHeadDim, 1>(queries, plan, address, workspace, stream);
  } else {
    launch_stream<kHeadDim, 2>(queries, plan, address, workspace, stream);
  }
}

/// Queues attention of any pass, as its plan says. `workspace`: at least Plan::workspace_bytes,
/// filled with zeros once by its owner. The kernels leave its counters at zero.
template <class Address>
void launch_attention(const Queries& queries, const Address& address, void* workspace,
                      const Stream& stream) {
  if (queries.num_rows == 0) return;
  const Plan plan(queries, on_hopper());
  if (workspace == nullptr && plan.workspace_bytes > 0) {
    throw std::logic_error("attention on CUDA: " + std::to_string(plan.workspace_bytes) +
                           " bytes of workspace are needed, none is given");
  }
  with_head_dim(queries.head_dim, [&](auto head_dim) {
    constexpr int kHeadDim = head_dim.value;
    switch (plan.path) {
      case Plan::Path::kSpread:
        return launch_spread<kHeadDim>(queries, plan, address, workspace, stream);
      case Plan::Path::kStream:
      case Plan::Path::kRuns:
        return launch_for_much<kHeadDim>(queries, plan, address, workspace, stream);
      case Plan::Path::kMany:
      case Plan::Path::kWarpgroups:
        return launch_for_many<kHeadDim>(plan.path, queries, address, stream);
    }
  });
}

/// Queues attention of a pass with many queries for each sequence. Needs no workspace.
template <class Address>
void launch_many_queries(const Queries& queries, const Address& address, const Stream& stream) {
  if (queries.num_rows == 0) return;
  const Plan::Path path = path_of_many(queries, on_hopper());
  with_head_dim(queries.head_dim, [&](auto head_dim) {
    launch_for_many<head_dim.value>(path, queries, address, stream);
  });
}

}  // namespace kv::attention
