#pragma once

// Attention for few queries of a sequence over much K and V on Hopper: the work of
// stream_queries.cuh, with bulk copies.
//
// All groups of keys of a pass, sequence by sequence, are cut into runs of equal length, one for
// each SM. A CTA has a warp for each KV head, and one warp that copies 16 tokens at a time. The
// heads of a token are contiguous; where the tokens are contiguous, too, one instruction copies all
// of them. So a CTA keeps a ring of up to 192 KB in flight, and the computing warps never look up a
// row. Most groups are merged into the result of their sequence by the warp that computed them.

#include "kernels/attention/rows.cuh"
#include "kernels/attention/runs/run_head.cuh"
#include "kernels/stage_ring.cuh"

namespace kv::attention {

#if KV_WARPGROUPS

/// A copy of K or V, which is read once: its lines are the first to leave the L2 cache.
__device__ inline void copy_range_once(void* shared, const void* global, uint32_t bytes,
                                       uint64_t* barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1], %2, [%3], %4;" ::"r"(shared_address(shared)),
      "l"(global), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
      : "memory");
}

/// The copying warp.
template <int kHeadDim, class Address>
class RunCopies {
 public:
  using Slots = Bf16Slots<kHeadDim>;
  using Shared = RunShared<kHeadDim, Slots>;
  __device__ RunCopies(Shared& shared, const Address& address)
      : shared_(shared), address_(address) {
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy_));
  }
  __device__ void copy_piece(const Piece& piece) {
    const auto rows = address_.rows(piece.seq, 0);
    const int len = piece.seq_len, end = min(piece.end * kGroupTokens, len);
    int row_of[2], next_row_of[2];
    find_rows(rows, piece.begin * kGroupTokens, len, row_of);
    for (int tile = piece.begin * kGroupTokens; tile < end; tile += kTileTokens) {
      find_rows(rows, tile + kTileTokens, len, next_row_of);
      // Tokens of earlier passes were written before this pass began; its own rows come later.
      if (tile + kTileTokens > piece.num_earlier) wait();
      copy_tile(rows.k, rows.stride, row_of, len - tile);
      copy_tile(rows.v, rows.stride, row_of, len - tile);
      row_of[0] = next_row_of[0];
      row_of[1] = next_row_of[1];
    }
  }
  __device__ void wait() {
    if (!waited_) wait_for_predecessors();
    waited_ = true;
  }

 private:
  template <class Rows>
  __device__ void find_rows(const Rows& rows, int tile, int len, int (&row_of)[2]) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) row_of[i] = rows.row_of(min(tile + 32 * i + lane_, len - 1));
  }
  /// Copies the first `count` rows of a tile of K or V, all heads.
  __device__ void copy_tile(const bf16* from, int64_t stride, const int (&row_of)[2], int count) {
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
      wait_for_phase(&shared_.empty[ring_.slot], ring_.phase ^ 1);  // the first round does not wait
      const int here = min(max(count - kQuarterTokens * i, 0), kQuarterTokens);
      if (lane_ == 0) {
        expect_bytes(&shared_.full[ring_.slot], static_cast<uint32_t>(here * Slots::kRowBytes));
      }
      __syncwarp();
      // A lane whose row does not follow the row before copies the whole stretch that begins there.
      const int row = __shfl_sync(kFullWarp, row_of[i / 2], i % 2 * 16 + lane_ % 16);
      const int before = __shfl_up_sync(kFullWarp, row, 1);
      const bool begins = lane_ < here && (lane_ == 0 || row != before + 1);
      const unsigned later = __ballot_sync(kFullWarp, begins) >> lane_ >> 1;
      const int length = later != 0 ? __ffs(static_cast<int>(later)) : here - lane_;
      if (begins) {
        copy_range_once(shared_.slots.rows[ring_.slot] + lane_ * Slots::kRowBytes,
                        from + row * stride, static_cast<uint32_t>(length * Slots::kRowBytes),
                        &shared_.full[ring_.slot], policy_);
      }
      ring_.next();
    }
  }

  Shared& shared_;
  const Address& address_;
  const int lane_ = static_cast<int>(threadIdx.x) % 32;
  uint64_t policy_;
  bool waited_ = false;
  Ring<Shared::kSlots> ring_;
};

#endif

/// Grid: a CTA for each SM; warp h has KV head h, the last one copies.
template <int kHeadDim, class Address>
__global__ void __launch_bounds__(kRunThreads, 1)
    run_queries_kernel(Queries queries, Address address, RunWorkspace<kHeadDim> workspace) {
#if KV_WARPGROUPS
  let_successors_start();
  using Shared = RunShared<kHeadDim, Bf16Slots<kHeadDim>>;
  auto& shared = *reinterpret_cast<Shared*>(kv::dynamic_shared<unsigned char>());
  init_barriers(shared);
  const Run run(queries);
  const int warp = __shfl_sync(kFullWarp, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp == kRunHeads) {
    RunCopies<kHeadDim, Address> copies(shared, address);
    for_each_piece(queries, run, [&](const Piece& piece) { copies.copy_piece(piece); });
    copies.wait();
    return;
  }
  wait_for_predecessors();
  RunOfHead<kHeadDim, Bf16Slots<kHeadDim>> head(shared, queries, workspace, warp, warp);
  for_each_piece(queries, run, [&](const Piece& piece) { head.attend(piece); });
#endif
}

}  // namespace kv::attention
