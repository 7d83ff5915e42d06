#pragma once

// Queues attention over FP8 pages, where there is a kernel for it: what a lesson's fast.cu calls.

#include <bit>
#include <cstdint>
#include <stdexcept>

#include "kernels/attention/launch.cuh"
#ifdef KV_SM90A
#include "kernels/attention/fp8/run_fp8_queries.cuh"
#include "kernels/tensor_map.cuh"
#endif

namespace kv::attention {

/// One layer in FP8: K and V are codes, [num_blocks, block_size, num_kv_heads, head_dim].
struct Fp8Layer {
  const void* k;
  const void* v;
  const uint8_t* scales;        // [num_blocks][num_kv_heads][K, V][block_size], a byte e + 127 each
  const int32_t* block_tables;  // [num_seqs, max_blocks_per_seq]
  int max_blocks_per_seq;
  int num_blocks;
  int block_size;
  int block_stride;  // rows from one block to the next
  int scale_stride;  // bytes of scales from one block to the next
};

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
                       .shift = std::countr_zero(static_cast<unsigned>(layer.block_size))};
  // Short passes, too, which have other kernels in bf16.
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

#endif

/// Queues attention, and returns true, if there is a kernel for the pass: 8 KV heads of 128, at
/// most 8 pairs for each in a sequence, no window, blocks of at least 16 tokens. `workspace`: as
/// for launch_attention().
inline bool launch_fp8_attention(const Queries& queries, const Fp8Layer& layer, void* workspace,
                                 const Stream& stream) {
#ifdef KV_SM90A
  if (queries.num_rows == 0) return true;
  if (!on_hopper() || queries.head_dim != kFp8HeadDim || queries.num_kv_heads != kRunHeads ||
      max_pairs(queries) > kRunPairs || queries.window > 0 ||
      int64_t{queries.num_seqs} * kRunHeads > kWorkspaceCounters ||
      layer.block_size < kQuarterTokens) {
    return false;
  }
  const Plan plan(queries, true);
  if (workspace == nullptr && plan.workspace_bytes > 0) {
    throw std::logic_error("attention over FP8 on CUDA: no workspace is given");
  }
  launch_fp8_runs(queries, plan, layer, workspace, stream);
  return true;
#else
  static_cast<void>(queries);
  static_cast<void>(layer);
  static_cast<void>(workspace);
  static_cast<void>(stream);
  return false;
#endif
}

}  // namespace kv::attention
