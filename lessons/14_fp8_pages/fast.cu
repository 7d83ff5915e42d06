// The engine's kernel on CUDA. Where kernels/attention has a kernel that reads FP8, it tells it
// where the pages are: decode steps with 8 KV heads of 128, on Hopper.
//
// Other passes go the simple way, which decodes the layer to bf16, then runs lesson 04's fast
// kernels. Right, and as wasteful as lesson 03's gather: 1 byte is read, 2 are written, and 2 are
// read again.

#include <cuda_bf16.h>

#include "e4m3.h"
#include "fp8_attention.h"
#include "kernels/attention/fp8/launch_fp8.cuh"
#include "kernels/launch.cuh"
#include "write_kv_fp8.h"

namespace lesson14 {
namespace {

/// Grid: (num_blocks, block_size, 2 * num_kv_heads): even z decodes K, odd z V. A CTA is one warp.
__global__ void decode_layer_kernel(KvBlocks layer, KvBlocks wide) {
  kv::let_successors_start();
  kv::wait_for_predecessors();  // until then this pass's rows may not be in the cache
  const int64_t block_id = blockIdx.x;
  const auto offset = static_cast<int>(blockIdx.y), head = static_cast<int>(blockIdx.z / 2);
  const bool is_k = blockIdx.z % 2 == 0;
  const Fp8Head from = fp8_head(layer, is_k, block_id, offset, head);
  auto* const to = (is_k ? lesson03::k_row<__nv_bfloat16>(wide, block_id, offset)
                         : lesson03::v_row<__nv_bfloat16>(wide, block_id, offset)) +
                   head * layer.head_dim;
  for (int d = static_cast<int>(threadIdx.x); d < layer.head_dim; d += 32) {
    to[d] = __float2bfloat16_rn(decode(from.codes[d], exponent_of(*from.scale)));  // exact
  }
}

kv::attention::Fp8Layer layer_of(const PagedAttentionArgs& pass) {
  const KvBlocks& cache = pass.cache;
  return {.k = cache.k,
          .v = cache.v,
          .scales = cache.scales,
          .block_tables = pass.block_tables,
          .max_blocks_per_seq = pass.max_blocks_per_seq,
          .num_blocks = cache.num_blocks,
          .block_size = cache.block_size,
          .block_stride = cache.block_stride,
          .scale_stride = cache.scale_stride()};
}

}  // namespace

void fast_fp8_attention_cuda(const FastFp8AttentionArgs& args, const kv::Stream& stream) {
  const KvBlocks& layer = args.pass.cache;
  lesson04::check_block_size(layer.block_size);
  if (kv::attention::launch_fp8_attention(kv::attention::queries_of(args.pass), layer_of(args.pass),
                                          args.pass.workspace, stream)) {
    return;
  }
  const dim3 grid(static_cast<unsigned>(layer.num_blocks), static_cast<unsigned>(layer.block_size),
                  static_cast<unsigned>(2 * layer.num_kv_heads));
  kv::launch_dependent(decode_layer_kernel, {grid, dim3(32), 0, "launching decode_layer"}, stream,
                       layer, args.wide);
  // Attention reads K and V of earlier tokens before it waits, because in a cache they are old.
  // This copy of them is new.
  kv::launch_barrier(stream);
  PagedAttentionArgs pass = args.pass;
  pass.cache = args.wide;
  lesson04::fast_paged_attention_cuda(pass, stream);
}

}  // namespace lesson14
