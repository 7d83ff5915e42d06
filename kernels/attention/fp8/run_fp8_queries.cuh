#pragma once

// Attention for few queries of a sequence over much K and V in FP8 pages, on Hopper: the runs of
// run_queries.cuh, whose warps widen the codes as they come out of shared memory. The bits are
// those of that kernel over the numbers that the codes stand for.
//
// TMA copies 16 tokens of all heads with one instruction, and swizzles the rows, so that lanes that
// read one column of many rows do not meet in a bank.
//
// Floor: codes and scales read once, 2 seq_len num_kv_heads (head_dim + 1) bytes per sequence.

#include "kernels/attention/fp8/fp8_slots.cuh"
#include "kernels/stage_ring.cuh"

namespace kv::attention {

inline constexpr int kFp8CopyWarps = 4;
inline constexpr int kFp8RunThreads = 32 * (kRunHeads + kFp8CopyWarps);

/// One layer in blocks of at least 16 tokens, and the tables of this pass's sequences.
struct Fp8Pages {
  CUtensorMap k, v;             // codes: [rows][kRunHeads][head_dim], in boxes of 16 rows
  CUtensorMap scales;           // [blocks][kRunHeads, K or V][block_size], in boxes of 16 tokens
  const int32_t* block_tables;  // [num_seqs, max_blocks_per_seq]
  int max_blocks_per_seq;
  int block_stride;  // rows from one block to the next
  int shift;         // a block has 2^shift tokens
};

#if KV_WARPGROUPS

/// A warp that copies: every kFp8CopyWarps-th slot of the ring.
template <int kHeadDim>
class Fp8RunCopies {
 public:
  using Slots = Fp8Slots<kHeadDim>;
  using Shared = RunShared<kHeadDim, Slots>;
  static_assert(kQuarters % kFp8CopyWarps == 0 && Slots::kSlots >= kFp8CopyWarps);
  __device__ Fp8RunCopies(Shared& shared, const Fp8Pages& pages, int warp)
      : shared_(shared), pages_(pages), warp_(warp), slot_(warp) {
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy_));
  }
  /// Fetches the maps, which the first copies would wait for.
  __device__ static void fetch_maps(const Fp8Pages& pages) {
    for (const CUtensorMap* const map : {&pages.k, &pages.v, &pages.scales}) {
      asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
    }
  }
  __device__ void copy_piece(const Piece& piece) {
    const int32_t* const table =
        pages_.block_tables + static_cast<int64_t>(piece.seq) * pages_.max_blocks_per_seq;
    const int len = piece.seq_len, end = min(piece.end * kGroupTokens, len);
    // A lane has the block of a 16th of a group, which is looked up a group ahead.
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
  /// K or V of the tokens from `tile` on, up to `len`. `blocks`: of the group.
  __device__ void copy_tile(bool is_k, int blocks, int tile, int len) {
#pragma unroll 1
    for (int i = warp_; i < kQuarters; i += kFp8CopyWarps) {
      const int token = tile + kQuarterTokens * i;
      const int block = __shfl_sync(kFullWarp, blocks, token / kQuarterTokens % 16);
      uint64_t* const full = &shared_.full[slot_];
      wait_for_phase(&shared_.empty[slot_], phase_ ^ 1);  // at first they are
      if (lane_ == 0) {
        const bool here = token < len;
        expect_bytes(full, !here ? 0 : is_k ? Slots::kBytes + Slots::kScaleBytes : Slots::kBytes);
        const int offset = token & ((1 << pages_.shift) - 1);
        if (here) {
          copy_box_once(shared_.slots.codes[slot_], is_k ? pages_.k : pages_.v, 0,
                        block * pages_.block_stride + offset, 0, full);
        }
        if (here && is_k) {
          copy_box_once(shared_.slots.scales[slot_], pages_.scales, offset, 0, block, full);
        }
      }
      __syncwarp();
      slot_ += kFp8CopyWarps;
      if (slot_ >= Slots::kSlots) {
        slot_ -= Slots::kSlots;
        phase_ ^= 1;
      }
    }
  }
  /// A copy of what is read once: its lines are the first to leave the L2 cache.
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
  const int warp_;
  const int lane_ = static_cast<int>(threadIdx.x) % 32;
  uint64_t policy_;
  bool waited_ = false;
  int slot_, phase_ = 0;
};

#endif

/// Grid: a CTA for each SM; warp h has KV head h, the last ones copy.
template <int kHeadDim>
__global__ void __maxnreg__(136)
    run_fp8_queries_kernel(Queries queries, const __grid_constant__ Fp8Pages pages,
                           RunWorkspace<kHeadDim> workspace) {
#if KV_WARPGROUPS
  let_successors_start();
#ifndef NO_FETCH
  if (threadIdx.x == 32 * kRunHeads) Fp8RunCopies<kHeadDim>::fetch_maps(pages);
#endif
  using Shared = RunShared<kHeadDim, Fp8Slots<kHeadDim>>;
  // Swizzled rows begin at a multiple of kSwizzleBytes.
  auto* const bytes = kv::dynamic_shared<unsigned char>();
  const uint32_t past = shared_address(bytes) % kSwizzleBytes;
  auto& shared = *reinterpret_cast<Shared*>(bytes + (kSwizzleBytes - past) % kSwizzleBytes);
#ifdef EARLY_RUN
  const Run run(queries);
  init_barriers(shared);
#else
  init_barriers(shared);
  const Run run(queries);
#endif
  const int warp = __shfl_sync(kFullWarp, static_cast<int>(threadIdx.x) / 32, 0);
  // The registers of warps that copy go to those that compute. 136 for each thread leave room for
  // the CTAs of merge_groups_kernel.
  if (warp >= kRunHeads) {
    give_registers_back<40>();
    Fp8RunCopies<kHeadDim> copies(shared, pages, warp - kRunHeads);
    for_each_piece(queries, run, [&](const Piece& piece) { copies.copy_piece(piece); });
    copies.wait();
  } else {
    take_registers<184>();
    wait_for_predecessors();
    RunOfHead<kHeadDim, Fp8Slots<kHeadDim>> head(shared, queries, workspace, warp);
    for_each_piece(queries, run, [&](const Piece& piece) { head.attend(piece); });
  }
#endif
}

}  // namespace kv::attention
