#pragma once

// Queues attention over FP8 pages, where there is a kernel for it: what a lesson's fast.cu calls.

#include <bit>
#include <cstdint>
#include <stdexcept>

#include "kernels/attention/fp8/fp8_share.cuh"
#include "kernels/attention/launch.cuh"
#ifdef KV_SM90A
#include "kernels/attention/fp8/run_fp8_queries.cuh"
#include "kernels/tensor_map.cuh"
#endif

namespace kv::attention {

inline int shift_of(const Fp8Layer& layer) {
  return std::countr_zero(static_cast<unsigned>(layer.block_size));
}

#ifdef KV_SM90A

inline constexpr int kFp8HeadDim = 128;

/// Codes as copies see them: boxes of 16 rows, all heads. Nothing is fetched beside them.
inline CUtensorMap codes_map(const Fp8Layer& layer, const void* codes) {
  const auto rows =
      static_cast<cuuint64_t>(layer.num_blocks) * static_cast<cuuint64_t>(layer.block_stride);
  return tensor_map<3>(CU_TENSOR_MAP_DATA_TYPE_UINT8, codes, {kFp8HeadDim, rows, kRunHeads},
                       {kRunHeads * kFp8HeadDim, kFp8HeadDim},
                       {kFp8HeadDim, kQuarterTokens, kRunHeads}, CU_TENSOR_MAP_SWIZZLE_128B,
                       CU_TENSOR_MAP_L2_PROMOTION_NONE);
}
/// Scales: boxes of the same 16 tokens, all heads, K and V.
inline CUtensorMap scales_map(const Fp8Layer& layer) {
  const auto size = static_cast<cuuint64_t>(layer.block_size);
  return tensor_map<3>(CU_TENSOR_MAP_DATA_TYPE_UINT8, layer.scales,
                       {size, 2 * kRunHeads, static_cast<cuuint64_t>(layer.num_blocks)},
                       {size, static_cast<cuuint64_t>(layer.scale_stride)},
                       {kQuarterTokens, 2 * kRunHeads, 1}, CU_TENSOR_MAP_SWIZZLE_NONE,
                       CU_TENSOR_MAP_L2_PROMOTION_NONE);
}

inline void launch_fp8_runs(const Queries& queries, const Plan& plan, const Fp8Layer& layer,
                            void* workspace, const Stream& stream) {
  constexpr size_t kSharedBytes =
      kSwizzleBytes + sizeof(RunShared<kFp8HeadDim, Fp8Slots<kFp8HeadDim>>);
  static_assert(kSharedBytes <= 227 * 1024);
  const auto kernel = run_fp8_queries_kernel<kFp8HeadDim>;
  static const bool ready = ask_for_shared(kernel, kSharedBytes);
  static_cast<void>(ready);
  const Fp8Pages pages{.k = codes_map(layer, layer.k),
                       .v = codes_map(layer, layer.v),
                       .scales = scales_map(layer),
                       .block_tables = layer.block_tables,
                       .max_blocks_per_seq = layer.max_blocks_per_seq,
                       .block_stride = layer.block_stride,
                       .shift = shift_of(layer)};
  // Passes of kStream, too.
  const bool merges_apart =
      plan.path == Plan::Path::kRuns ? plan.merges_apart : plan.max_groups > kClusterGroups;
  const RunWorkspace<kFp8HeadDim> pieces{
      .counters = static_cast<unsigned int*>(workspace),
      .partials = workspace == nullptr ? nullptr : partials_of<kFp8HeadDim>(workspace),
      .max_groups = plan.max_groups,
      .merges_apart = merges_apart};
  launch_dependent(kernel,
                   {dim3(static_cast<unsigned>(cuda_backend::num_sms())), dim3(kFp8RunThreads),
                    kSharedBytes, "launching attention over FP8"},
                   stream, queries, pages, pieces);
  if (merges_apart) launch_merge<kFp8HeadDim>(queries, plan, workspace, stream);
}

/// True if run_fp8_queries.cuh serves the pass, and is faster than spread_queries.cuh.
inline bool runs_serve_fp8(const Queries& queries, const Plan& plan) {
  return on_hopper() && plan.path != Plan::Path::kSpread && queries.head_dim == kFp8HeadDim &&
         queries.num_kv_heads == kRunHeads && max_pairs(queries) <= kRunPairs &&
         queries.window == 0;
}

#endif

/// Queues attention, and returns true, if there is a kernel for the pass: at most 64 pairs of a
/// sequence and KV head (Plan), blocks of at least 16 tokens. `workspace`: as for
/// launch_attention().
inline bool launch_fp8_attention(const Queries& queries, const Fp8Layer& layer, void* workspace,
                                 const Stream& stream) {
  if (queries.num_rows == 0) return true;
  const Plan plan(queries, on_hopper());
  const bool many = plan.path == Plan::Path::kMany || plan.path == Plan::Path::kWarpgroups;
  if (many || layer.block_size < kQuarterTokens || plan.num_blocks > kWorkspaceCounters) {
    return false;
  }
  if (workspace == nullptr && plan.workspace_bytes > 0) {
    throw std::logic_error("attention over FP8 on CUDA: no workspace is given");
  }
#ifdef KV_SM90A
  if (runs_serve_fp8(queries, plan)) {
    launch_fp8_runs(queries, plan, layer, workspace, stream);
    return true;
  }
#endif
  const Fp8Blocks blocks{.layer = layer,
                         .num_kv_heads = queries.num_kv_heads,
                         .head_dim = queries.head_dim,
                         .shift = shift_of(layer)};
  with_head_dim(queries.head_dim, [&](auto head_dim) {
    launch_spread<head_dim.value>(queries, plan, blocks, workspace, stream);
  });
  return true;
}

}  // namespace kv::attention
