#pragma once

// Attention for few queries of a sequence over much K and V in FP8 pages, on Hopper. It shares the
// work out as run_queries.cuh does; its warps widen the codes as they read them from shared memory.
// The bits are those of run_queries.cuh over the numbers that the codes stand for.
//
// TMA copies 16 tokens of all heads with one instruction. It swizzles the rows, so that lanes that
// read one column of many rows use different banks.
//
// Floor: codes and scales read once, 2 seq_len num_kv_heads (head_dim + 1) bytes per sequence.

#include "kernels/attention/fp8/fp8_slots.cuh"
#include "kernels/stage_ring.cuh"

namespace kv::attention {

/// Shape of a CTA that has kHeads KV heads.
template <int kHeads>
struct Fp8RunShape {
  static constexpr int kCopyWarps = kHeads >= 4 ? 4 : 2;
  static constexpr int kThreads = 32 * (kHeads + kCopyWarps);
  static constexpr int kCtas = kHeads == 8 ? 1 : kHeads == 4 ? 2 : 3;  // on an SM
  /// Copying warps give registers to computing warps, where no warpgroup has both kinds.
  static constexpr bool kGivesRegisters = kHeads >= 4;
  static constexpr int kOfComputing = 184, kOfCopying = 40;
  /// Registers of a thread at launch. They leave room for the CTAs of merge_groups_kernel.
  static constexpr int kRegisters =
      kGivesRegisters ? (kHeads * kOfComputing + kCopyWarps * kOfCopying) / (kHeads + kCopyWarps)
                      : 160;
};

/// One layer in blocks of at least 16 tokens, and the tables of this pass's sequences.
struct Fp8Pages {
  CUtensorMap k, v;             // codes: [rows][..][128], in boxes of 16 rows
  CUtensorMap scales;           // [blocks][kv_heads, K or V][block_size], in boxes of 16 tokens
  const int32_t* block_tables;  // [num_seqs, max_blocks_per_seq]
  int max_blocks_per_seq;
  int shift;  // a block has 2^shift tokens
};

#if KV_WARPGROUPS

/// A copying warp: it fills every kCopyWarps-th slot of the ring.
template <int kHeadDim, int kHeads>
class Fp8RunCopies {
 public:
  using Slots = Fp8Slots<kHeadDim, kHeads>;
  using Shared = RunShared<kHeadDim, Slots>;
  static constexpr int kCopyWarps = Fp8RunShape<kHeads>::kCopyWarps;
  static_assert(kQuarters % kCopyWarps == 0 && Slots::kSlots >= kCopyWarps);
  __device__ Fp8RunCopies(Shared& shared, const Fp8Pages& pages, int first_head, int warp)
      : shared_(shared), pages_(pages), first_head_(first_head), warp_(warp), slot_(warp) {
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy_));
  }
  __device__ void copy_piece(const Piece& piece) {
    const int32_t* const table =
        pages_.block_tables + static_cast<int64_t>(piece.seq) * pages_.max_blocks_per_seq;
    const int len = piece.seq_len, end = min(piece.end * kGroupTokens, len);
    // Each lane has the block of one sixteenth of a group, looked up one group ahead.
    const auto block_of = [&](int group_begin) {
      return table[min(group_begin + kQuarterTokens * (lane_ % 16), len - 1) >> pages_.shift];
    };
    int next_block = block_of(piece.begin * kGroupTokens);
    for (int group = piece.begin * kGroupTokens; group < end; group += kGroupTokens) {
      const int block = next_block;
      next_block = block_of(group + kGroupTokens);
      for (int tile = group; tile < min(group + kGroupTokens, end); tile += kTileTokens) {
        // Tokens of earlier passes were written before this pass began; its own rows come later.
        if (tile + kTileTokens > piece.num_earlier) wait();
        copy_tile(true, block, tile, len);
        copy_tile(false, block, tile, len);
      }
    }
  }
  __device__ void wait() {
    if (!waited_) wait_for_predecessors();
    waited_ = true;
  }

 private:
  /// Copies K or V of the tile's tokens, up to `len`. `blocks`: the lanes' blocks of the group.
  __device__ void copy_tile(bool is_k, int blocks, int tile, int len) {
#pragma unroll 1
    for (int i = warp_; i < kQuarters; i += kCopyWarps) {
      const int token = tile + kQuarterTokens * i;
      const int block = __shfl_sync(kFullWarp, blocks, token / kQuarterTokens % 16);
      uint64_t* const full = &shared_.full[slot_];
      wait_for_phase(&shared_.empty[slot_], phase_ ^ 1);  // the first round does not wait
      if (lane_ == 0) {
        const bool here = token < len;
        expect_bytes(full, !here ? 0 : is_k ? Slots::kBytes + Slots::kScaleBytes : Slots::kBytes);
        const int offset = token & ((1 << pages_.shift) - 1);
        if (here) {
          copy_box_once(shared_.slots.codes[slot_], is_k ? pages_.k : pages_.v, 0,
                        (block << pages_.shift) + offset, first_head_ / Slots::kHeadsInRow, full);
        }
        if (here && is_k) {
          copy_box_once(shared_.slots.scales[slot_].of_head, pages_.scales, offset, 2 * first_head_,
                        block, full);
        }
      }
      __syncwarp();
      slot_ += kCopyWarps;
      if (slot_ >= Slots::kSlots) {
        slot_ -= Slots::kSlots;
        phase_ ^= 1;
      }
    }
  }
  /// A copy of data that is read once: its lines are the first to leave the L2 cache.
  __device__ void copy_box_once(void* shared, const CUtensorMap& map, int x, int y, int z,
                                uint64_t* barrier) const {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(shared_address(shared)),
        "l"(&map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z), "l"(policy_)
        : "memory");
  }

  Shared& shared_;
  const Fp8Pages& pages_;
  const int first_head_;  // the CTA's first head
  const int warp_;
  const int lane_ = static_cast<int>(threadIdx.x) % 32;
  uint64_t policy_;
  bool waited_ = false;
  int slot_, phase_ = 0;
};

#endif

/// Grid: (CTAs that share the keys, num_kv_heads / kHeads), all of them on the GPU at once. Warp h
/// < kHeads of a CTA computes its KV head h; the last warps copy.
template <int kHeadDim, int kHeads>
__global__ void __maxnreg__(Fp8RunShape<kHeads>::kRegisters)
    run_fp8_queries_kernel(Queries queries, const __grid_constant__ Fp8Pages pages,
                           RunWorkspace<kHeadDim> workspace) {
#if KV_WARPGROUPS
  let_successors_start();
  using Slots = Fp8Slots<kHeadDim, kHeads>;
  using Shared = RunShared<kHeadDim, Slots>;
  using Shape = Fp8RunShape<kHeads>;
  // Swizzled rows must begin at a multiple of kSwizzleBytes.
  auto* const bytes = kv::dynamic_shared<unsigned char>();
  const uint32_t past = shared_address(bytes) % kSwizzleBytes;
  auto& shared = *reinterpret_cast<Shared*>(bytes + (kSwizzleBytes - past) % kSwizzleBytes);
  init_barriers(shared);
  const Run run(queries);
  const int warp = __shfl_sync(kFullWarp, static_cast<int>(threadIdx.x) / 32, 0);
  const int first_head = static_cast<int>(blockIdx.y) * kHeads;
  if (warp >= kHeads) {
    if constexpr (Shape::kGivesRegisters) give_registers_back<Shape::kOfCopying>();
    Fp8RunCopies<kHeadDim, kHeads> copies(shared, pages, first_head, warp - kHeads);
    for_each_piece(queries, run, [&](const Piece& piece) { copies.copy_piece(piece); });
    copies.wait();
  } else {
    if constexpr (Shape::kGivesRegisters) take_registers<Shape::kOfComputing>();
    wait_for_predecessors();
    RunOfHead<kHeadDim, Slots> head(shared, queries, workspace, first_head + warp, warp);
    for_each_piece(queries, run, [&](const Piece& piece) { head.attend(piece); });
  }
#endif
}

}  // namespace kv::attention
