// The engine's kernel on CUDA. Passes with few queries of a sequence are served by
// kernels/attention, which is told where the pages are.
//
// Other passes go the simple way, which decodes to bf16 what their tables name, then runs lesson
// 04's fast kernels. Right, and as wasteful as lesson 03's gather: 1 byte is read, 2 are written,
// and 2 are read again.

#include <cuda_bf16.h>

#include "e4m3.h"
#include "fp8_attention.h"
#include "kernels/attention/fp8/launch_fp8.cuh"
#include "kernels/launch.cuh"
#include "lessons/03_paged_blocks/block_table.h"
#include "write_kv_fp8.h"

namespace lesson14 {
namespace {

constexpr int kDecodedTokens = 16, kDecodeThreads = 128;
/// Neighbours of a row, in one load and one store.
constexpr int kCodes = 8;
struct alignas(kCodes) Codes {
  uint8_t x[kCodes];
};
struct alignas(2 * kCodes) Numbers {
  __nv_bfloat16 x[kCodes];
};

/// Decodes what the queries of the pass see, each row into its own place in `wide`. A block that
/// sequences share is decoded by each of them, to the same bits.
/// Grid: (kDecodedTokens of the longest sequence, 2, num_seqs): y = 0 decodes K, y = 1 V.
__global__ void __launch_bounds__(kDecodeThreads)
    decode_tokens_kernel(PagedAttentionArgs pass, KvBlocks wide) {
  kv::let_successors_start();
  kv::wait_for_predecessors();  // until then this pass's rows may not be in the cache
  const KvBlocks& layer = pass.cache;
  const auto seq = static_cast<int>(blockIdx.z), first = static_cast<int>(blockIdx.x);
  const bool is_k = blockIdx.y == 0;
  const int seq_len = pass.seq_len[seq];
  const int num_rows = pass.first_row[seq + 1] - pass.first_row[seq];
  const int first_seen = kv::attention::first_key(seq_len - num_rows, pass.window);
  const int begin = max(first * kDecodedTokens, first_seen);
  const int end = min((first + 1) * kDecodedTokens, seq_len);
  const int32_t* const table = pass.block_tables + int64_t{seq} * pass.max_blocks_per_seq;
  const int pieces = layer.row_width() / kCodes;
  for (int i = static_cast<int>(threadIdx.x); i < (end - begin) * pieces; i += kDecodeThreads) {
    const int token = begin + i / pieces, element = i % pieces * kCodes;
    const int64_t block_id = table[token / layer.block_size];
    const int offset = token % layer.block_size, head = element / layer.head_dim;
    const Fp8Head from = fp8_head(layer, is_k, block_id, offset, head);
    const int exponent = exponent_of(*from.scale);
    const Codes codes = *reinterpret_cast<const Codes*>(from.codes + element % layer.head_dim);
    Numbers numbers;
#pragma unroll
    for (int x = 0; x < kCodes; ++x) {
      numbers.x[x] = __float2bfloat16_rn(decode(codes.x[x], exponent));  // exact
    }
    auto* const row = is_k ? lesson03::k_row<__nv_bfloat16>(wide, block_id, offset)
                           : lesson03::v_row<__nv_bfloat16>(wide, block_id, offset);
    *reinterpret_cast<Numbers*>(row + element) = numbers;
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
  kv::attention::with_head_dim(layer.head_dim, [](auto) {});  // throws if no kernel has this size
  if (kv::attention::launch_fp8_attention(kv::attention::queries_of(args.pass), layer_of(args.pass),
                                          args.pass.workspace, stream)) {
    return;
  }
  if (args.pass.num_rows == 0) return;
  const dim3 grid(
      static_cast<unsigned>(lesson03::blocks_for(args.pass.max_seq_len, kDecodedTokens)), 2,
      static_cast<unsigned>(args.pass.num_seqs));
  kv::launch_dependent(decode_tokens_kernel,
                       {grid, dim3(kDecodeThreads), 0, "launching decode_tokens"}, stream,
                       args.pass, args.wide);
  // Attention reads K and V of earlier tokens before it waits, because in a cache they are old.
  // This copy of them is new.
  kv::launch_barrier(stream);
  PagedAttentionArgs pass = args.pass;
  pass.cache = args.wide;
  lesson04::fast_paged_attention_cuda(pass, stream);
}

}  // namespace lesson14
