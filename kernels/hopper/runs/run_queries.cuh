#pragma once

// Attention for few queries of a sequence over much K and V on Hopper: the work of
// stream_queries.cuh, with copies by TMA.
//
// All groups of keys of a pass, sequence by sequence, are cut into runs of equal length, one for
// each CTA; the CTAs of some KV heads are on the GPU all at once. A CTA has a warp for each of its
// KV heads, and warps that copy 16 tokens of all of them with one instruction. So it keeps a ring
// of slots in flight, and the computing warps never look up a row. With fewer than eight KV heads
// its warps are several teams, each with slots of its own, which take the run's groups in turn.
// Most groups are merged into the result of their sequence by the warp that computed them.
//
// Codes in FP8 pass through the same slots, and the computing warps widen them.

#include "kernels/attention/fp8/fp8_rows.cuh"
#include "kernels/hopper/layer_maps.cuh"
#include "kernels/hopper/runs/run_head.cuh"
#include "kernels/stage_ring.cuh"

namespace kv::hopper {

/// Where a run copies from: rows in bf16, in blocks of at least 16 tokens.
template <class Address>
struct RunTiles {
  static constexpr bool kHasCodes = false;
  Address address;
  LayerMaps maps;  // boxes of 16 rows and a CTA's KV heads
};
/// Codes and their scales, in such blocks.
struct CodedRunTiles {
  static constexpr bool kHasCodes = true;
  Fp8Blocks address;
  LayerMaps maps;      // boxes of 16 rows and a CTA's KV heads
  CUtensorMap scales;  // [blocks][kv_heads, K or V][block_size], in boxes of the same
};

/// `elements`: of the KV heads of a CTA.
template <class Address>
RunTiles<Address> run_tiles_of(const Address& address, int elements) {
  return {address, layer_maps(address.layer(), kQuarterTokens, 2 * elements / kSwizzledRowBytes)};
}
inline CodedRunTiles run_tiles_of(const Fp8Blocks& address, int elements) {
  const auto size = static_cast<cuuint64_t>(address.block_size);
  const auto heads = static_cast<cuuint32_t>(elements / address.head_dim);
  return {address, layer_maps(address.layer(), kQuarterTokens, elements / kSwizzledRowBytes),
          tensor_map<3>(CU_TENSOR_MAP_DATA_TYPE_UINT8, address.scales,
                        {size, 2 * static_cast<cuuint64_t>(address.num_kv_heads),
                         static_cast<cuuint64_t>(address.num_blocks)},
                        {size, static_cast<cuuint64_t>(address.scale_stride)},
                        {kQuarterTokens, 2 * heads, 1}, CU_TENSOR_MAP_SWIZZLE_NONE,
                        CU_TENSOR_MAP_L2_PROMOTION_NONE)};
}

#if KV_WARPGROUPS

/// A copying warp: it fills every kCopyWarps-th slot of its team's ring.
template <int kHeadDim, int kHeads, class Tiles>
class RunCopies {
 public:
  using Slots = RunSlots<kHeadDim, kHeads, Tiles::kHasCodes>;
  using Shared = RunShared<kHeadDim, Slots>;
  static constexpr int kTeams = Slots::kTeams, kCopyWarps = Slots::kCopyWarps;
  static_assert(kQuarters % kCopyWarps == 0 && Slots::kSlots >= kCopyWarps);
  __device__ RunCopies(Shared& shared, const Tiles& tiles, int first_head, int team, int warp)
      : shared_(shared), tiles_(tiles), first_head_(first_head), team_(team), warp_(warp) {
    ring_.next(warp);
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy_));
  }
  /// Copies every kTeams-th group of the piece, from group `first` on.
  __device__ void copy_piece(const Piece& piece, int first) {
    const auto rows = tiles_.address.rows(piece.seq, 0);
    const int begin = piece.keys_begin;
    // Each lane has the row of one sixteenth of a group's tokens, looked up one group ahead. Tokens
    // before the first one that is seen may be in nobody's block.
    const auto row_of = [&](int group) {
      const int token = piece.token(group) + kQuarterTokens * (lane_ % 16);
      const int there = min(max(token, begin), piece.seq_len - 1);
      return rows.row_of(there) - (there - token);
    };
    int next_row = row_of(first);
    for (int g = first; g < piece.end; g += kTeams) {
      const int row = next_row, group = piece.token(g);
      const int group_end = min(group + kGroupTokens, piece.seq_len);
      next_row = row_of(g + kTeams);
      for (int tile = max(group, begin / kTileTokens * kTileTokens); tile < group_end;
           tile += kTileTokens) {
        // Tokens of earlier passes were written before this pass began; its own rows come later.
        if (tile + kTileTokens > piece.num_earlier) wait();
        copy_tile(true, row, tile, piece);
        copy_tile(false, row, tile, piece);
      }
    }
  }
  __device__ void wait() {
    if (!waited_) wait_for_predecessors();
    waited_ = true;
  }

 private:
  /// Copies K or V of the tile's tokens that exist and are seen. `rows`: the lanes' rows of the
  /// group.
  __device__ void copy_tile(bool is_k, int rows, int tile, const Piece& piece) {
#pragma unroll 1
    for (int i = warp_; i < kQuarters; i += kCopyWarps) {
      const int token = tile + kQuarterTokens * i;
      const int row = __shfl_sync(kFullWarp, rows, token / kQuarterTokens % 16);
      const bool here = token < piece.seq_len && token + kQuarterTokens > piece.keys_begin;
      uint64_t* const full = &shared_.full[team_][ring_.slot];
      wait_for_phase(&shared_.empty[team_][ring_.slot], ring_.phase ^ 1);  // not in the first round
      if (lane_ == 0) {
        expect_bytes(full, !here ? 0 : is_k ? Slots::kBytes + Slots::kScaleBytes : Slots::kBytes);
        if (here) {
          const int part = first_head_ * Slots::kHeadBytes / kSwizzledRowBytes;
          copy_box_once(shared_.slots[team_].parts[ring_.slot],
                        is_k ? tiles_.maps.k : tiles_.maps.v, 0, row, part, full);
        }
        if constexpr (Slots::kHasCodes) {
          if (here && is_k) {
            const int shift = tiles_.address.shift;
            copy_box_once(shared_.scales[team_][ring_.slot].of_head, tiles_.scales,
                          row & ((1 << shift) - 1), 2 * first_head_, row >> shift, full);
          }
        }
      }
      __syncwarp();
      ring_.next(kCopyWarps);
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
  const Tiles& tiles_;
  const int first_head_;  // the CTA's first head
  const int team_, warp_;
  const int lane_ = static_cast<int>(threadIdx.x) % 32;
  uint64_t policy_;
  bool waited_ = false;
  Ring<Slots::kSlots> ring_;
};

#endif

/// Grid: (CTAs that share the keys, num_kv_heads / kHeads), all of them on the GPU at once. Warp w
/// < kRunWarps of a CTA computes its KV head w % kHeads in team w / kHeads; the last warps copy.
/// kWindow: RunOfHead's.
template <int kHeadDim, int kHeads, bool kWindow, class Tiles>
__global__ void __maxnreg__(kRunRegisters)
    run_queries_kernel(Queries queries, const __grid_constant__ Tiles tiles,
                       RunWorkspace<kHeadDim, Tiles::kHasCodes> workspace) {
#if KV_WARPGROUPS
  let_successors_start();
  prefetch_maps(tiles.maps);
  using Slots = RunSlots<kHeadDim, kHeads, Tiles::kHasCodes>;
  auto& shared = *kv::dynamic_shared<RunShared<kHeadDim, Slots>>();
  init_barriers(shared);
  const Run run(queries);
  const int warp = __shfl_sync(kFullWarp, static_cast<int>(threadIdx.x) / 32, 0);
  const int first_head = static_cast<int>(blockIdx.y) * kHeads;
  if (warp >= kRunWarps) {
    give_registers_back<kOfCopying>();
    const int team = (warp - kRunWarps) / Slots::kCopyWarps;
    RunCopies<kHeadDim, kHeads, Tiles> copies(shared, tiles, first_head, team,
                                              warp % Slots::kCopyWarps);
    for_each_piece<Slots::kTeams>(queries, run, team, [&](const Piece& piece, int first) {
      copies.copy_piece(piece, first);
    });
    copies.wait();
  } else {
    take_registers<kOfComputing>();
    wait_for_predecessors();
    const int team = warp / kHeads, head = warp % kHeads;
    RunOfHead<kHeadDim, Slots, kWindow> warp_of_head(shared, queries, workspace, team,
                                                     first_head + head, head);
    for_each_piece<Slots::kTeams>(queries, run, team, [&](const Piece& piece, int first) {
      warp_of_head.attend(piece, first);
    });
  }
#endif
}

}  // namespace kv::hopper
