#pragma once

// Queues attention by the kernels for Hopper. The functions return whether they did: a pass that
// path_of() refuses, another GPU, or a build without code for sm_90a is left to the caller.

#include "common/device.h"
#include "kernels/hopper/plan.h"

#ifdef KV_SM90A

#include <algorithm>

#include "kernels/attention/head_dims.cuh"
#include "kernels/attention/merge_groups.cuh"
#include "kernels/hopper/runs/run_queries.cuh"
#include "kernels/hopper/warpgroups/fp8_step_tiles.cuh"
#include "kernels/hopper/warpgroups/warpgroup_queries.cuh"

namespace kv::hopper {

template <int kHeadDim, int kWarpgroups, class Tiles>
void launch_groups(const Queries& queries, const Tiles& tiles, const Stream& stream) {
  constexpr size_t kSharedBytes = sizeof(WarpgroupShared<kHeadDim, kWarpgroups>);
  static_assert(kSharedBytes <= 227 * 1024);
  const auto kernel = warpgroup_queries_kernel<kHeadDim, kWarpgroups, Tiles>;
  [[maybe_unused]] static const bool ready = ask_for_shared(kernel, kSharedBytes);
  constexpr int kPairs = kWarpgroups * kWarpgroupPairs;
  const dim3 grid(static_cast<unsigned>(queries.num_kv_heads),
                  static_cast<unsigned>((queries.max_pairs() + kPairs - 1) / kPairs),
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
  constexpr int kPairs = 2 * kWarpgroupPairs;
  const int64_t blocks = (queries.max_pairs() + kPairs - 1) / kPairs;
  const bool two = blocks * queries.num_kv_heads * queries.num_seqs >= cuda_backend::num_sms();
  two ? launch_groups<kHeadDim, 2>(queries, tiles_of(address), stream)
      : launch_groups<kHeadDim, 1>(queries, tiles_of(address), stream);
}

/// Makes SMs that run the kernel use all of their L1 memory as shared memory. Otherwise they take
/// what its CTA needs, and without a KB more no CTA of merge_groups_kernel fits beside it.
template <class Kernel>
bool fill_with_shared(Kernel kernel) {
  cuda_backend::check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                           cudaSharedmemCarveoutMaxShared),
                      "asking for all shared memory of an SM");
  return true;
}

template <int kHeadDim, int kHeads, bool kWindow, class Address>
void launch_runs_of_heads(const Queries& queries, const Plan& plan, const Address& address,
                          void* workspace, const Stream& stream) {
  constexpr bool kCodes = kHasCodes<Address>;
  constexpr size_t kSharedBytes = sizeof(RunShared<kHeadDim, RunSlots<kHeadDim, kHeads, kCodes>>);
  static_assert(kSharedBytes <= 227 * 1024);
  const auto tiles = run_tiles_of(address, kHeads * kHeadDim);
  const auto kernel =
      run_queries_kernel<kHeadDim, kHeads, kWindow, decltype(run_tiles_of(address, 0))>;
  [[maybe_unused]] static const bool ready =
      ask_for_shared(kernel, kSharedBytes) && fill_with_shared(kernel);
  const int parts = queries.num_kv_heads / kHeads;
  const int ctas = std::max(1, cuda_backend::num_sms() / parts);
  const int64_t length = (int64_t{queries.num_seqs} * plan.max_groups + ctas - 1) / ctas;
  const bool merges_apart = merges_runs_apart(plan.max_groups, length);
  const RunWorkspace<kHeadDim, kCodes> pieces{
      .counters = static_cast<unsigned int*>(workspace),
      .partials =
          workspace == nullptr ? nullptr : partials_of<RunPartial<kHeadDim, kCodes>>(workspace),
      .max_groups = plan.max_groups,
      .merges_apart = merges_apart};
  launch_dependent(kernel,
                   {dim3(static_cast<unsigned>(ctas), static_cast<unsigned>(parts)),
                    dim3(kRunThreads), kSharedBytes, "launching attention"},
                   stream, queries, tiles, pieces);
  if (merges_apart) launch_merge(queries, plan, pieces.partials, stream);
}

/// Path kRuns.
template <int kHeadDim, bool kWindow, class Address>
void launch_runs_of(const Queries& queries, const Plan& plan, const Address& address,
                    void* workspace, const Stream& stream) {
  const int heads = run_heads(queries.num_kv_heads, kHeadDim);
  if (heads == 8) {
    launch_runs_of_heads<kHeadDim, 8, kWindow>(queries, plan, address, workspace, stream);
  } else if constexpr (run_heads(2, kHeadDim) > 0) {
    heads == 4
        ? launch_runs_of_heads<kHeadDim, 4, kWindow>(queries, plan, address, workspace, stream)
        : launch_runs_of_heads<kHeadDim, 2, kWindow>(queries, plan, address, workspace, stream);
  }
}

/// Warps that widen codes have no time to ask for a window that is not there. Those of rows in bf16
/// wait for memory anyway, and one kernel serves both.
template <int kHeadDim, class Address>
void launch_runs(const Queries& queries, const Plan& plan, const Address& address, void* workspace,
                 const Stream& stream) {
  if constexpr (kHasCodes<Address>) {
    if (queries.window == 0) {
      return launch_runs_of<kHeadDim, false>(queries, plan, address, workspace, stream);
    }
  }
  launch_runs_of<kHeadDim, true>(queries, plan, address, workspace, stream);
}

/// Attention of a pass with many queries for each sequence, over rows in bf16 or over codes.
template <class Address>
bool attend_many(const Queries& queries, const Address& address, const Stream& stream) {
  if (!is_here() || !serves_many(queries)) return false;
  queries.head_dim == 64 ? launch_warpgroups<64>(queries, address, stream)
                         : launch_warpgroups<128>(queries, address, stream);
  return true;
}

/// Attention of any pass, for which other GPUs have `plan`.
template <class Address>
bool attend(const Queries& queries, const Plan& plan, const Address& address, void* workspace,
            const Stream& stream) {
  if (!is_here()) return false;
  const int tokens = address.layer().contiguous_tokens;
  switch (path_of(queries, plan, tokens, kHasCodes<Address>)) {
    case Path::kRuns:
      with_head_dim(queries.head_dim, [&](auto head_dim) {
        if constexpr (run_heads(8, head_dim.value) > 0) {
          launch_runs<head_dim.value>(queries, plan, address, workspace, stream);
        }
      });
      return true;
    case Path::kWarpgroups:
      return attend_many(queries, address, stream);
    case Path::kNone:
      break;
  }
  return false;
}

}  // namespace kv::hopper

#else

namespace kv::hopper {

template <class Address>
bool attend_many(const Queries&, const Address&, const Stream&) {
  return false;
}
template <class Address>
bool attend(const Queries&, const Plan&, const Address&, void*, const Stream&) {
  return false;
}

}  // namespace kv::hopper

#endif
