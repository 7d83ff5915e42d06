// Step 5: tensor cores. A warp attends to 16 tokens at a time, for all query heads of a KV head at
// once. Scores never leave its registers, so the softmax is online and needs no barrier.
//
// The idea: with eight heads step 4 spends its time on arithmetic. The tensor cores do it in a
// hundredth of the instructions. So a warp has nothing to do but load: each lane starts 16 loads of
// 16 bytes, 8 KB for the warp, before it uses the first. step5_tensor_cores.cuh has the arithmetic.
//
// Must be read: K and V once. Partitions as in step 3.
//
// The limit: a warp that computes has nothing in flight, and one that loads does not compute. Only
// other warps fill the gaps, and the registers that receive the loads leave room for few.
//
//   CTA      one KV head of one sequence, one partition
//   warp     tiles of 16 tokens: warp, warp + 4, ...
//   lane     16 pieces of 16 bytes of the tile: 8 of K, 8 of V

#include "step5_tensor_cores.cuh"

namespace lesson04::road {
namespace {

/// Grid: (num_kv_heads, num_seqs, parts.count).
__global__ void __launch_bounds__(kThreads)
    tensor_cores_kernel(PagedAttentionArgs args, Partitioning parts) {
  __shared__ CtaStates states;
  const int kv_head = static_cast<int>(blockIdx.x);
  const int seq = static_cast<int>(blockIdx.y);
  const int part = static_cast<int>(blockIdx.z);
  const int begin = part * parts.tokens;
  const int end = min(args.seq_len[seq], begin + parts.tokens);
  if (begin >= end) return;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int group = args.num_heads / args.cache.num_kv_heads;
  const Rows rows(args, seq, kv_head);

  WarpState state(args, seq, kv_head, group);
  for (int first = begin + warp * kTileTokens; first < end; first += kWarps * kTileTokens) {
    uint4 x[kPieces];
    for_each_piece(rows, first, end - 1,
                   [&](int i, const bf16* from) { x[i] = *reinterpret_cast<const uint4*>(from); });
    __syncwarp();  // the compiler moves no load past it, so all loads come before a use
    state.attend(x, end - first);
  }
  state.store(states);
  __syncthreads();
  for (int h = 0; h < group; ++h) {
    merge_warps(states, h, parts.partial(args, seq, kv_head * group + h, part));
  }
}

}  // namespace

void tensor_cores(const PagedAttentionArgs& args, const kv::Stream& stream) {
  check_decode(args);
  const Partitioning parts = cut_keys(args, args.cache.num_kv_heads);
  const dim3 grid(static_cast<unsigned>(args.cache.num_kv_heads),
                  static_cast<unsigned>(args.num_seqs), static_cast<unsigned>(parts.count));
  kv::launch(tensor_cores_kernel, {grid, dim3(kThreads), 0, "launching tensor_cores"}, stream, args,
             parts);
  merge_partitions(args, parts, stream);
}

}  // namespace lesson04::road
