// Step 6: copies ahead. cp.async brings the next tiles into shared memory while the warp computes
// on the current one: step 5 with a ring of three tiles between memory and registers.
//
// The idea: a warp has to wait for a load before it uses the register again, but a copy to shared
// memory runs in the background. Two tiles, 16 KB, are always in flight for each warp, even while
// it computes. A lane copies just the pieces that it will read, so threads do not wait for each
// other, and no two lanes use the same bank.
//
// Must be read: K and V once. Partitions as in step 3.
//
// The limit: memory, if enough is in flight on each SM (Little's law: 11 KB on an idle H200, more
// under load; here 128 KB). The rest is the ends of partitions, where a ring runs empty, and
// the start of the second kernel.
//
//   CTA      one KV head of one sequence, one partition
//   warp     tiles of 16 tokens: warp, warp + 4, ...
//   ring     [warp][slot 3][piece 16][lane 32] of 16 bytes: 96 KB; at the end the warps' states

#include "step5_tensor_cores.cuh"

namespace lesson04::road {
namespace {

constexpr int kSlots = 3;
constexpr int kRingBytes = kWarps * kSlots * kPieces * 32 * 16;
static_assert(sizeof(CtaStates) <= kRingBytes);

/// Grid: (num_kv_heads, num_seqs, parts.count).
__global__ void __launch_bounds__(kThreads)
    copies_ahead_kernel(PagedAttentionArgs args, Partitioning parts) {
  extern __shared__ uint4 ring[];
  const int kv_head = static_cast<int>(blockIdx.x);
  const int seq = static_cast<int>(blockIdx.y);
  const int part = static_cast<int>(blockIdx.z);
  const int begin = part * parts.tokens;
  const int end = min(args.seq_len[seq], begin + parts.tokens);
  if (begin >= end) return;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int group = args.num_heads / args.cache.num_kv_heads;
  const Rows rows(args, seq, kv_head);

  /// The first token of this warp's tile i, and this lane's place for the tile in the ring.
  const auto first_token = [&](int i) { return begin + (warp + kWarps * i) * kTileTokens; };
  const auto place = [&](int i) {
    return ring + (warp * kSlots + i % kSlots) * kPieces * 32 + lane;
  };
  const auto start_copies = [&](int i) {
    if (first_token(i) < end) {
      uint4* to = place(i);
      for_each_piece(rows, first_token(i), end - 1, [&](int piece, const bf16* from) {
        kv::copy_16(to + piece * 32, from, true);
      });
    }
    kv::commit_copies();  // also when empty, because the wait counts groups
  };
  for (int i = 0; i < kSlots - 1; ++i) start_copies(i);

  WarpState state(args, seq, kv_head, group);
  for (int i = 0; first_token(i) < end; ++i) {
    start_copies(i + kSlots - 1);  // into the slot that the round before has read
    kv::wait_for_copies<kSlots - 1>();
    uint4 x[kPieces];
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) x[piece] = place(i)[piece * 32];
    state.attend(x, end - first_token(i));
  }
  __syncthreads();  // all threads have read the ring
  auto& states = *reinterpret_cast<CtaStates*>(ring);
  state.store(states);
  __syncthreads();
  for (int h = 0; h < group; ++h) {
    merge_warps(states, h, parts.partial(args, seq, kv_head * group + h, part));
  }
}

}  // namespace

void copies_ahead(const PagedAttentionArgs& args, const kv::Stream& stream) {
  check_decode(args);
  const Partitioning parts = cut_keys(args, args.cache.num_kv_heads);
  const dim3 grid(static_cast<unsigned>(args.cache.num_kv_heads),
                  static_cast<unsigned>(args.num_seqs), static_cast<unsigned>(parts.count));
  [[maybe_unused]] static const bool ready = kv::ask_for_shared(copies_ahead_kernel, kRingBytes);
  kv::launch(copies_ahead_kernel, {grid, dim3(kThreads), kRingBytes, "launching copies_ahead"},
             stream, args, parts);
  merge_partitions(args, parts, stream);
}

}  // namespace lesson04::road
