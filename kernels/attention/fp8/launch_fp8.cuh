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
#include "kernels/attention/runs/run_queries.cuh"
#include "kernels/tensor_map.cuh"
#endif

namespace kv::attention {

inline int shift_of(const Fp8Layer& layer) {
  return std::countr_zero(static_cast<unsigned>(layer.block_size));
}

#ifdef KV_SM90A

/// Where a run copies from: codes and their scales, in blocks of at least 16 tokens.
struct CodedRunTiles {
  static constexpr bool kAreFp8 = true;
  Fp8Blocks address;
  LayerMaps maps;      // boxes of 16 rows and a CTA's KV heads
  CUtensorMap scales;  // [blocks][kv_heads, K or V][block_size], in boxes of the same
};
inline CodedRunTiles run_tiles_of(const Fp8Blocks& address, int elements) {
  const Fp8Layer& layer = address.layer;
  const auto size = static_cast<cuuint64_t>(layer.block_size);
  const auto heads = static_cast<cuuint32_t>(elements / address.head_dim);
  const LayerRows rows{.k = layer.k,
                       .v = layer.v,
                       .num_rows = int64_t{layer.num_blocks} * layer.block_size,
                       .row_bytes = int64_t{address.num_kv_heads} * address.head_dim,
                       .contiguous_tokens = layer.block_size};
  return {address, layer_maps(rows, kQuarterTokens, elements / kSwizzledRowBytes),
          tensor_map<3>(CU_TENSOR_MAP_DATA_TYPE_UINT8, layer.scales,
                        {size, 2 * static_cast<cuuint64_t>(address.num_kv_heads),
                         static_cast<cuuint64_t>(layer.num_blocks)},
                        {size, static_cast<cuuint64_t>(layer.scale_stride)},
                        {kQuarterTokens, 2 * heads, 1}, CU_TENSOR_MAP_SWIZZLE_NONE,
                        CU_TENSOR_MAP_L2_PROMOTION_NONE)};
}

/// Queues the kernel of runs if it serves the pass and is faster than spread_queries.cuh. Returns
/// whether it did.
template <int kHeadDim>
bool launch_fp8_runs(const Queries& queries, const Plan& plan, const Fp8Blocks& blocks,
                     void* workspace, const Stream& stream) {
  if (!on_hopper() || plan.path == Plan::Path::kSpread || max_pairs(queries) > kRunPairs) {
    return false;
  }
  const auto launch = [&]<int kHeads>() {
    launch_runs_of_heads<kHeadDim, kHeads>(queries, plan, run_tiles_of(blocks, kHeads * kHeadDim),
                                           workspace, stream);
  };
  if (queries.num_kv_heads % 8 == 0) {
    launch.template operator()<8>();
  } else if (queries.num_kv_heads % 4 == 0) {
    launch.template operator()<4>();
  } else if (queries.num_kv_heads % 2 == 0) {
    launch.template operator()<2>();
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
      if (launch_fp8_runs<kHeadDim>(queries, plan, blocks, workspace, stream)) return;
    }
#endif
    if (fill_gpu) return launch_for_each_seq();
    launch_spread<kHeadDim>(queries, plan, blocks, workspace, stream);
  });
}

}  // namespace kv::attention
