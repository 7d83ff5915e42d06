#pragma once

// Attention for many queries on Hopper: the work of many_queries.cuh, done by warpgroups (wgmma).
//
// A CTA has one or two computing warpgroups of 64 pairs each, and one copying warpgroup that brings
// tiles of K and V into a ring in shared memory (step_tiles.cuh). Where the tiles come from is a
// parameter: by TMA from rows in bf16 (BoxedTiles), or widened from codes (fp8_step_tiles.cuh).
//
// A tile's output and the next tile's scores are in flight together. Two warpgroups take turns: the
// steps of one run while the other computes its softmax. Tiles that all pairs see whole come first
// and need no test for each key.
//
// After a group's first tile m seldom moves. So a warp first computes P with the m it has. If no
// lane's sum exceeds kSurelyBelow, no weight can exceed kMaxWeight, and m stays. Else it looks for
// the largest score, moves m if it must, and computes P again. The bits are the same either way.

#include <algorithm>

#include "kernels/attention/rows.cuh"
#include "kernels/attention/warp_tile.cuh"
#include "kernels/hopper/warpgroup.cuh"
#include "kernels/hopper/warpgroups/step_tiles.cuh"

namespace kv::hopper {

inline constexpr int kWarpgroupPairs = 64;
inline constexpr float kSurelyBelow = kMaxWeight / 2;  // the sum's error is far smaller

template <int kHeadDim, int kWarpgroups>
struct WarpgroupShared {
  static constexpr int kSlots = 4;
  StepTile<kHeadDim> tiles[kSlots];
  uint64_t full[kSlots], empty[kSlots];
};

/// Tiles of rows in bf16. A warp copies by TMA the tiles whose 64 tokens all exist. What follows
/// the sequence in memory may be NaN, and 0 * NaN is NaN, so the last tokens are copied row by row.
template <class Address>
struct BoxedTiles {
  static constexpr int kArrivals = 1;  // at `full`, for each tile
  static constexpr int kRegisters = 240, kCopyRegisters = 24;

  Address address;
  LayerMaps maps;
};
template <class Address>
BoxedTiles<Address> tiles_of(const Address& address) {
  const LayerRows layer = address.layer();
  return {address, layer_maps(layer, std::min(layer.contiguous_tokens, kTileTokens), 1)};
}

#if KV_WARPGROUPS

/// A barrier of a warpgroup's threads; the CTA's barrier 3, 4 or 5.
__device__ inline void sync_warpgroup(int number) {
  asm volatile("bar.sync %0, %1;" ::"r"(3 + number), "n"(kWarpgroupThreads) : "memory");
}

/// The work of the copying warpgroup.
template <int kHeadDim, int kWarpgroups, class Address>
__device__ inline void copy_tiles(WarpgroupShared<kHeadDim, kWarpgroups>& shared,
                                  const BoxedTiles<Address>& tiles, const Pairs& pairs, int seq,
                                  int kv_head, int num_tiles) {
  constexpr int kSlots = WarpgroupShared<kHeadDim, kWarpgroups>::kSlots;
  const auto rows = tiles.address.rows(seq, kv_head);
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroupThreads;
  const int num_whole = min(num_tiles, pairs.seq_len / kTileTokens);
  for (int i = 0; i < num_whole && thread < 32; ++i) {
    wait_for_phase(&shared.empty[i % kSlots], (i / kSlots & 1) ^ 1);  // not in the first round
    uint64_t* const full = &shared.full[i % kSlots];
    StepTile<kHeadDim>& tile = shared.tiles[i % kSlots];
    if (thread == 0) expect_bytes(full, sizeof(tile));
    __syncwarp();
    for (int row = thread * tiles.maps.box_rows; row < kTileTokens;
         row += 32 * tiles.maps.box_rows) {
      const int from = rows.row_of(i * kTileTokens + row);
#pragma unroll
      for (int part = 0; part < tile.k.kRegions; ++part) {
        const int to = part * tile.k.kRegionBytes + row * kSwizzledRowBytes;
        copy_box(tile.k.bytes + to, tiles.maps.k, 0, from, kv_head * tile.k.kRegions + part, full);
        copy_box(tile.v.bytes + to, tiles.maps.v, 0, from, kv_head * tile.k.kRegions + part, full);
      }
    }
  }
  if (num_whole == num_tiles) return;
  // Only the first warp has seen all phases before this one.
  if (thread < 32) {
    wait_for_phase(&shared.empty[num_whole % kSlots], (num_whole / kSlots & 1) ^ 1);
  }
  sync_warpgroup(kWarpgroups);
  StepTile<kHeadDim>& tile = shared.tiles[num_whole % kSlots];
  constexpr int kPieces = kHeadDim / 8;
#pragma unroll 1
  for (int i = thread; i < kTileTokens * kPieces; i += kWarpgroupThreads) {
    const int token = num_whole * kTileTokens + i / kPieces;
    const bool valid = token < pairs.seq_len;
    copy_piece(tile.k, i / kPieces, i % kPieces, rows.k_row(valid ? token : 0), valid);
    copy_piece(tile.v, i / kPieces, i % kPieces, rows.v_row(valid ? token : 0), valid);
  }
  commit_copies();
  wait_for_copies<0>();
  publish_copies();
  sync_warpgroup(kWarpgroups);
  if (thread == 0) arrive(&shared.full[num_whole % kSlots]);
}

/// A computing warpgroup.
template <int kHeadDim, int kWarpgroups>
class WarpgroupOfQueries {
 public:
  __device__ WarpgroupOfQueries(WarpgroupShared<kHeadDim, kWarpgroups>& shared,
                                const Queries& queries, const Pairs& pairs, int first_pair,
                                int number)
      : shared_(shared), number_(number) {
    const int warp = static_cast<int>(threadIdx.x) % kWarpgroupThreads / 32;
    const int last_pair = min(first_pair + kWarpgroupPairs, pairs.count()) - 1;
    pair_ = first_pair + kMmaPairs * warp + lane() / 4;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      num_keys_[h] = pairs.num_keys(pair_ + 8 * h);
      // A pair that does not exist takes the last one's query and is not stored.
      const bf16* const row = q_row(queries, pairs, min(pair_ + 8 * h, pairs.count() - 1));
#pragma unroll
      for (int i = 0; i < kRowSteps<kHeadDim>; ++i) q_[i][h] = query_part(row, i, lane() % 4);
    }
    const bool any = first_pair <= last_pair;
    num_tiles_ = any ? (pairs.num_keys(last_pair) + kTileTokens - 1) / kTileTokens : 0;
    whole_tiles_ = any ? min(pairs.num_keys(first_pair) / kTileTokens, num_tiles_ - 1) : 0;
  }

  __device__ void attend(int tiles_of_cta);
  __device__ void store(const Queries& queries, const Pairs& pairs);

 private:
  static constexpr int kSlots = WarpgroupShared<kHeadDim, kWarpgroups>::kSlots;
  using Matrix = StepMatrix<kHeadDim>;

  /// For the warpgroup's 64 pairs, the tile's 64 keys and each element e, 16 in a step:
  /// scores[pair][key] += Q[pair][e] * K[key][e], from zero.
  __device__ void start_scores() {
    wait_for_phase(&shared_.full[ring_.slot], ring_.phase);
    const uint64_t k = swizzled_descriptor(shared_.tiles[ring_.slot].k.bytes);
    begin_steps();
#pragma unroll
    for (int i = 0; i < kRowSteps<kHeadDim>; ++i) {
      const int at = (i / 4 * Matrix::kRegionBytes + i % 4 * 32) / 16;
      warpgroup_step(scores_, q_[i][0].x, q_[i][1].x, q_[i][0].y, q_[i][1].y, k + at, i > 0);
    }
    end_steps();
  }
  /// For the warpgroup's 64 pairs, each element e and the tile's keys, 16 in a step: acc[pair][e]
  /// += P[pair][key] * V[key][e], from zero in a group's first tile.
  __device__ void start_output(int slot, const uint32_t (&p)[kQuarters][4], bool first) {
    const uint64_t v = swizzled_descriptor(shared_.tiles[slot].v.bytes, Matrix::kRegionBytes);
    pin(acc_);
    begin_steps();
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
      warpgroup_step<true>(acc_, p[i][0], p[i][1], p[i][2], p[i][3],
                           v + i * (kQuarterTokens * kSwizzledRowBytes / 16), i > 0 || !first);
    }
    end_steps();
  }
  __device__ void release(int slot) {
    if (threadIdx.x % 32 == 0) arrive(&shared_.empty[slot]);
  }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  /// Pair quad + 8 h sees the tile's keys before this one; kWhole: all of them.
  template <bool kWhole>
  __device__ int visible(int tile, int h) const {
    return kWhole ? kTileTokens : num_keys_[h] - tile * kTileTokens;
  }
  template <bool kWhole>
  __device__ void softmax(int tile, uint32_t (&p)[kQuarters][4], float (&sum)[2]) const;
  template <bool kWhole, bool kFirst>
  __device__ void attend_to(int tile);
  __device__ void merge_group();

  WarpgroupShared<kHeadDim, kWarpgroups>& shared_;
  int number_;              // of this warpgroup
  int pair_, num_keys_[2];  // of pairs pair_ and pair_ + 8
  int num_tiles_;
  int whole_tiles_;  // tiles that all pairs see whole, without the last one
  QueryRows<kHeadDim> q_;
  Ring<kSlots> ring_;              // the slot of the scores
  float scores_[kTileTokens / 2];  // QuarterScores of the four quarters
  // Element 8 n + 2 t + c of pair quad + 8 h is acc[4 n + 2 h + c].
  float acc_[kHeadDim / 2];          // of the group
  float m_[2], l_[2];                // l: this lane's part
  float result_[kHeadDim / 2] = {};  // of the groups so far
  float result_m_[2] = {kNoKey, kNoKey}, result_l_[2] = {};
};

/// P of the scores with m as it is, and this lane's part of their sums.
template <int kHeadDim, int kWarpgroups>
template <bool kWhole>
__device__ inline void WarpgroupOfQueries<kHeadDim, kWarpgroups>::softmax(
    int tile, uint32_t (&p)[kQuarters][4], float (&sum)[2]) const {
  float part[2][kQuarters];
#pragma unroll
  for (int i = 0; i < kQuarters; ++i) {
    QuarterScores s;
#pragma unroll
    for (int j = 0; j < 8; ++j) s[j / 4][j % 4] = scores_[8 * i + j];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      part[h][i] = quarter_softmax(s, h, visible<kWhole>(tile, h) - i * kQuarterTokens, lane() % 4,
                                   score_scale<kHeadDim>(), m_[h]);
    }
    quarter_operand(s, p[i]);
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) sum[h] = (part[h][0] + part[h][1]) + (part[h][2] + part[h][3]);
}

/// Turns the tile's scores into its output. On the way it starts the next tile's scores.
template <int kHeadDim, int kWarpgroups>
template <bool kWhole, bool kFirst>
__device__ inline void WarpgroupOfQueries<kHeadDim, kWarpgroups>::attend_to(int tile) {
  wait_for_steps<0>();
  pin(scores_);
  const int slot = ring_.slot;
  uint32_t p[kQuarters][4];
  float sum[2], factor[2] = {1.0f, 1.0f};
  if (!kFirst) softmax<kWhole>(tile, p, sum);
  if (kFirst || !__all_sync(kFullWarp, sum[0] <= kSurelyBelow && sum[1] <= kSurelyBelow)) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (kFirst) m_[h] = kNoKey, l_[h] = 0.0f;
      QuarterScores s[kQuarters];
#pragma unroll
      for (int i = 0; i < kTileTokens / 2; ++i) s[i / 8][i / 4 % 2][i % 4] = scores_[i];
      factor[h] = move_m(m_[h], largest_score<kHeadDim>(s, h, visible<kWhole>(tile, h)));
    }
    if (!kFirst && __any_sync(kFullWarp, factor[0] != 1.0f || factor[1] != 1.0f)) {
#pragma unroll
      for (int i = 0; i < kHeadDim / 2; ++i) acc_[i] *= factor[i / 2 % 2];
    }
    softmax<kWhole>(tile, p, sum);
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) l_[h] = fmaf(l_[h], factor[h], sum[h]);
  if (kWarpgroups == 2) take_turn(number_);
  start_output(slot, p, kFirst);
  ring_.next();
  if (kWhole || tile + 1 < num_tiles_) {
    start_scores();
    if (kWarpgroups == 2) give_turn(1 - number_);
    wait_for_steps<kWhole ? 1 : 0>();  // in flight over branches, ptxas would serialize all steps
  } else {
    if (kWarpgroups == 2) give_turn(1 - number_);
    wait_for_steps<0>();
  }
  pin(acc_);
  release(slot);
}

/// Merges a finished group into the result.
template <int kHeadDim, int kWarpgroups>
__device__ inline void WarpgroupOfQueries<kHeadDim, kWarpgroups>::merge_group() {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const Merge merge = Merge::of(result_m_[h], m_[h]);
    result_m_[h] = merge.m;
    result_l_[h] = merge(result_l_[h], quad_sum(l_[h]));
#pragma unroll
    for (int i = 2 * h; i < kHeadDim / 2; i += i % 2 == 0 ? 1 : 3) {
      result_[i] = merge(result_[i], acc_[i]);
    }
  }
}

template <int kHeadDim, int kWarpgroups>
__device__ inline void WarpgroupOfQueries<kHeadDim, kWarpgroups>::attend(int tiles_of_cta) {
  if (number_ == 1) give_turn(0);
  int tile = 0;
  if (num_tiles_ > 0) {
    start_scores();
#pragma unroll 1
    while (tile < whole_tiles_) {
      attend_to<true, true>(tile++);
      const int end = min(tile + kGroupTiles - 1, whole_tiles_);
#pragma unroll 1
      while (tile < end) attend_to<true, false>(tile++);
      if (tile % kGroupTiles == 0) merge_group();
    }
#pragma unroll 1
    do {
      tile % kGroupTiles == 0 ? attend_to<false, true>(tile) : attend_to<false, false>(tile);
      ++tile;
      if (tile % kGroupTiles == 0 || tile == num_tiles_) merge_group();
    } while (tile < num_tiles_);
  }
  for (; tile < tiles_of_cta; ++tile) {  // only the other warpgroup sees them
    wait_for_phase(&shared_.full[ring_.slot], ring_.phase);
    take_turn(number_);
    give_turn(1 - number_);
    release(ring_.slot);
    ring_.next();
  }
}

template <int kHeadDim, int kWarpgroups>
__device__ inline void WarpgroupOfQueries<kHeadDim, kWarpgroups>::store(const Queries& queries,
                                                                        const Pairs& pairs) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (num_keys_[h] == 0) continue;
    LaneState<kHeadDim> result;
    result.l = result_l_[h];
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      result.acc[2 * n] = result_[4 * n + 2 * h];
      result.acc[2 * n + 1] = result_[4 * n + 2 * h + 1];
    }
    store_result<kHeadDim>(result, out_row(queries, pairs, pair_ + 8 * h));
  }
}

#endif

/// Grid: (num_kv_heads, blocks of 64 kWarpgroups pairs of the longest query range, num_seqs); long
/// blocks first. The last warpgroup copies.
template <int kHeadDim, int kWarpgroups, class Tiles>
__global__ void __launch_bounds__((kWarpgroups + 1) * kWarpgroupThreads, 1)
    warpgroup_queries_kernel(Queries queries, const __grid_constant__ Tiles tiles) {
#if KV_WARPGROUPS
  auto& shared = *kv::dynamic_shared<WarpgroupShared<kHeadDim, kWarpgroups>>();
  let_successors_start();
  if constexpr (requires { tiles.maps; }) prefetch_maps(tiles.maps);
  if (threadIdx.x == 0) {
    for (int i = 0; i < WarpgroupShared<kHeadDim, kWarpgroups>::kSlots; ++i) {
      init_mbarrier(&shared.full[i], Tiles::kArrivals);
      init_mbarrier(&shared.empty[i], 4 * kWarpgroups);  // the warps that compute
    }
    publish_barriers();
  }
  wait_for_predecessors();
  __syncthreads();
  const int seq = static_cast<int>(blockIdx.z), kv_head = static_cast<int>(blockIdx.x);
  constexpr int kPairs = kWarpgroups * kWarpgroupPairs;
  const int first_pair = static_cast<int>(gridDim.y - 1 - blockIdx.y) * kPairs;
  const Pairs pairs = pairs_of(queries, seq, kv_head);
  if (first_pair >= pairs.count()) return;
  const int keys_end = pairs.num_keys(min(first_pair + kPairs, pairs.count()) - 1);
  const int num_tiles = (keys_end + kTileTokens - 1) / kTileTokens;
  // Taken from lane 0, so that the compiler knows it is the same in all lanes.
  const int warpgroup =
      __shfl_sync(kFullWarp, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0);
  if (warpgroup == kWarpgroups) {
    if constexpr (kWarpgroups == 2) give_registers_back<Tiles::kCopyRegisters>();
    copy_tiles(shared, tiles, pairs, seq, kv_head, num_tiles);
    return;
  }
  if constexpr (kWarpgroups == 2) take_registers<Tiles::kRegisters>();
  WarpgroupOfQueries<kHeadDim, kWarpgroups> group(
      shared, queries, pairs, first_pair + warpgroup * kWarpgroupPairs, warpgroup);
  group.attend(num_tiles);
  group.store(queries, pairs_of(queries, seq, kv_head));
#endif
}

}  // namespace kv::hopper
