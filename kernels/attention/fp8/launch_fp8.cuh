#pragma once

// Queues attention over FP8 pages; called by a lesson's fast.cu.

#include <bit>
#include <cstdint>
#include <stdexcept>

#include "kernels/attention/fp8/fp8_many_tiles.cuh"
#include "kernels/attention/fp8/fp8_share.cuh"
#include "kernels/attention/launch.cuh"
#ifdef KV_SM90A
#include "kernels/attention/fp8/fp8_step_tiles.cuh"
#include "kernels/attention/fp8/run_fp8_queries.cuh"
#include "kernels/tensor_map.cuh"
#endif

namespace kv::attention {

inline int shift_of(const Fp8Layer& layer) {
  return std::countr_zero(static_cast<unsigned>(layer.block_size));
}

#ifdef KV_SM90A

/// Describes codes to TMA: boxes of 16 rows and `bytes` bytes of each, in parts of 128. The L2
/// cache fetches nothing more.
inline CUtensorMap codes_map(const Fp8Layer& layer, const void* codes, int row_bytes, int bytes) {
  constexpr cuuint32_t kPart = kSwizzledRowBytes;
  const auto rows =
      static_cast<cuuint64_t>(layer.num_blocks) * static_cast<cuuint64_t>(layer.block_size);
  const auto stride = static_cast<cuuint64_t>(row_bytes);
  return tensor_map<3>(CU_TENSOR_MAP_DATA_TYPE_UINT8, codes, {kPart, rows, stride / kPart},
                       {stride, kPart},
                       {kPart, kQuarterTokens, static_cast<cuuint32_t>(bytes) / kPart},
                       CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE);
}
/// Describes scales: boxes of the same 16 tokens and heads, K and V.
inline CUtensorMap scales_map(const Fp8Layer& layer, int num_kv_heads, int heads) {
  const auto size = static_cast<cuuint64_t>(layer.block_size);
  return tensor_map<3>(
      CU_TENSOR_MAP_DATA_TYPE_UINT8, layer.scales,
      {size, 2 * static_cast<cuuint64_t>(num_kv_heads), static_cast<cuuint64_t>(layer.num_blocks)},
      {size, static_cast<cuuint64_t>(layer.scale_stride)},
      {kQuarterTokens, 2 * static_cast<cuuint32_t>(heads), 1}, CU_TENSOR_MAP_SWIZZLE_NONE,
      CU_TENSOR_MAP_L2_PROMOTION_NONE);
}

template <int kHeadDim, int kHeads>
void launch_runs_of_heads(const Queries& queries, const Plan& plan, const Fp8Layer& layer,
                          void* workspace, const Stream& stream) {
  using Shape = Fp8RunShape<kHeads>;
  constexpr size_t kSharedBytes =
      kSwizzleBytes + sizeof(RunShared<kHeadDim, Fp8Slots<kHeadDim, kHeads>>);
  static_assert(Shape::kCtas * (kSharedBytes + 1024) <= 228 * 1024);
  const auto kernel = run_fp8_queries_kernel<kHeadDim, kHeads>;
  static const bool ready = ask_for_shared(kernel, kSharedBytes);
  static_cast<void>(ready);
  const int row_bytes = queries.num_kv_heads * kHeadDim;
  const Fp8Pages pages{.k = codes_map(layer, layer.k, row_bytes, kHeads * kHeadDim),
                       .v = codes_map(layer, layer.v, row_bytes, kHeads * kHeadDim),
                       .scales = scales_map(layer, queries.num_kv_heads, kHeads),
                       .block_tables = layer.block_tables,
                       .max_blocks_per_seq = layer.max_blocks_per_seq,
                       .shift = shift_of(layer)};
  const int parts = queries.num_kv_heads / kHeads;
  const int ctas = std::max(1, cuda_backend::num_sms() * Shape::kCtas / parts);
  // As Plan does for runs in bf16.
  const int64_t length = (int64_t{queries.num_seqs} * plan.max_groups + ctas - 1) / ctas;
  const bool merges_apart = plan.max_groups > 8 * length;
  const RunWorkspace<kHeadDim> pieces{
      .counters = static_cast<unsigned int*>(workspace),
      .partials = workspace == nullptr ? nullptr : partials_of<kHeadDim>(workspace),
      .max_groups = plan.max_groups,
      .merges_apart = merges_apart};
  const dim3 grid(static_cast<unsigned>(ctas), static_cast<unsigned>(parts));
  launch_dependent(kernel,
                   {grid, dim3(Shape::kThreads), kSharedBytes, "launching attention over FP8"},
                   stream, queries, pages, pieces);
  if (merges_apart) launch_merge<kHeadDim>(queries, plan, workspace, stream);
}

/// Queues the kernel of runs if it serves the pass and is faster than spread_queries.cuh. Returns
/// whether it did.
template <int kHeadDim>
bool launch_fp8_runs(const Queries& queries, const Plan& plan, const Fp8Layer& layer,
                     void* workspace, const Stream& stream) {
  if (!on_hopper() || plan.path == Plan::Path::kSpread || max_pairs(queries) > kRunPairs ||
      queries.window > 0) {
    return false;
  }
  if (queries.num_kv_heads % 8 == 0) {
    launch_runs_of_heads<kHeadDim, 8>(queries, plan, layer, workspace, stream);
  } else if (queries.num_kv_heads % 4 == 0) {
    launch_runs_of_heads<kHeadDim, 4>(queries, plan, layer, workspace, stream);
  } else if (queries.num_kv_heads % 2 == 0) {
    launch_runs_of_heads<kHeadDim, 2>(queries, plan, layer, workspace, stream);
  } else {
    return false;
  }
  return true;
}

#endif

/// Attention of any pass. `workspace`: as for launch_attention().
inline void launch_fp8_attention(const Queries& queries, const Fp8Layer& layer, void* workspace,
                                 const Stream& stream) {
  if (queries.num_rows == 0) return;
  const Plan plan(queries, on_hopper());
  const Fp8Blocks blocks{.layer = layer,
                         .num_kv_heads = queries.num_kv_heads,
                         .head_dim = queries.head_dim,
                         .shift = shift_of(layer)};
  const bool many = plan.path == Plan::Path::kMany || plan.path == Plan::Path::kWarpgroups ||
                    plan.num_blocks > kWorkspaceCounters;
  // Much K and V, but no kernel of runs for it. With enough sequences and heads to fill the GPU, a
  // CTA for each of them is faster than a CTA for each group.
  const bool fill_gpu = plan.path != Plan::Path::kSpread &&
                        queries.num_seqs * queries.num_kv_heads >= cuda_backend::num_sms();
  with_head_dim(queries.head_dim, [&](auto head_dim) {
    constexpr int kHeadDim = head_dim.value;
    if (layer.block_size < kQuarterTokens) {  // the other kernels need blocks of 16 tokens
      return launch_many<kHeadDim>(queries, blocks, stream);
    }
    const auto launch_for_each_seq = [&] {
      launch_for_many<kHeadDim>(path_of_many(queries, on_hopper()), queries, blocks, stream);
    };
    if (many) return launch_for_each_seq();
    if (workspace == nullptr && plan.workspace_bytes > 0) {
      throw std::logic_error("attention over FP8 on CUDA: no workspace is given");
    }
#ifdef KV_SM90A
    if constexpr (kHasHopperKernels<kHeadDim>) {
      if (launch_fp8_runs<kHeadDim>(queries, plan, layer, workspace, stream)) return;
    }
#endif
    if (fill_gpu) return launch_for_each_seq();
    launch_spread<kHeadDim>(queries, plan, blocks, workspace, stream);
  });
}

}  // namespace kv::attention
