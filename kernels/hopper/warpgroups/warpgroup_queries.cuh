#pragma once

// Attention for many queries on Hopper: the work of many_queries.cuh, done by warpgroups (wgmma).
//
// A CTA has one or two computing warpgroups of 64 pairs each, and one copying warpgroup that brings
// tiles of K and V into a ring in shared memory (step_tiles.cuh). Where the tiles come from is a
// parameter: by TMA from rows in bf16 (BoxedTiles), or widened from codes (fp8_step_tiles.cuh).
//
// While a warpgroup merges tile i into its group, its scores of tile i + 1 are in flight. Two
// warpgroups take turns: the steps of one run while the other computes its softmax. Groups that all
// pairs see whole come first and need no test for each tile. The first tile of such a group is
// summed in the group's registers.

#include <algorithm>

#include "kernels/attention/rows.cuh"
#include "kernels/attention/warp_tile.cuh"
#include "kernels/hopper/warpgroup.cuh"
#include "kernels/hopper/warpgroups/step_tiles.cuh"

namespace kv::hopper {

inline constexpr int kWarpgroupPairs = 64;

template <int kHeadDim, int kWarpgroups>
struct WarpgroupShared {
  static constexpr int kSlots = 4;
  StepTile<kHeadDim> tiles[kSlots];
  StepMatrix<kHeadDim> queries[kWarpgroups];
  float2 result[kHeadDim / 8][2][kWarpgroups * kWarpgroupThreads];  // [n][h], each lane's own
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
      : shared_(shared), number_(number), q_(swizzled_descriptor(shared.queries[number].bytes)) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) % kWarpgroupThreads / 32;
    const int last_pair = min(first_pair + kWarpgroupPairs, pairs.count()) - 1;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      pair_[h] = first_pair + kMmaPairs * warp + lane / 4 + 8 * h;
      num_keys_[h] = pairs.num_keys(pair_[h]);
    }
    copy_queries(queries, pairs, first_pair);
    const bool any = first_pair <= last_pair;
    num_tiles_ = any ? (pairs.num_keys(last_pair) + kTileTokens - 1) / kTileTokens : 0;
    whole_groups_ = any ? (pairs.num_keys(first_pair) - 1) / kGroupTokens : 0;
  }

  __device__ void attend(int tiles_of_cta);
  __device__ void store(const Queries& queries, const Pairs& pairs);

 private:
  static constexpr int kSlots = WarpgroupShared<kHeadDim, kWarpgroups>::kSlots;
  using Matrix = StepMatrix<kHeadDim>;

  /// Copies the queries of the warpgroup's pairs. A pair that does not exist gets the last one's
  /// and is not stored.
  __device__ void copy_queries(const Queries& queries, const Pairs& pairs, int first_pair) {
    constexpr int kPieces = kHeadDim / 8;
#pragma unroll
    for (int i = 0; i < kWarpgroupPairs * kPieces / kWarpgroupThreads; ++i) {
      const int at = static_cast<int>(threadIdx.x) % kWarpgroupThreads + i * kWarpgroupThreads;
      const int pair = min(first_pair + at / kPieces, pairs.count() - 1);
      copy_piece(shared_.queries[number_], at / kPieces, at % kPieces, q_row(queries, pairs, pair),
                 true);
    }
    commit_copies();
    wait_for_copies<0>();
    publish_copies();
    sync_warpgroup(number_);
  }
  /// For the warpgroup's 64 pairs, the tile's 64 keys and each element e, 16 in a step:
  /// scores[pair][key] += Q[pair][e] * K[key][e], from zero.
  __device__ void start_scores(int tile) {
    wait_for_phase(&shared_.full[tile % kSlots], tile / kSlots & 1);
    const uint64_t k = swizzled_descriptor(shared_.tiles[tile % kSlots].k.bytes);
    begin_steps();
#pragma unroll
    for (int i = 0; i < kRowSteps<kHeadDim>; ++i) {
      const int at = (i / 4 * Matrix::kRegionBytes + i % 4 * 32) / 16;
      warpgroup_step(scores_, q_ + at, k + at, i > 0);
    }
    end_steps();
  }
  /// For its 64 pairs, each element e and the tile's keys, 16 in a step: acc[pair][e] +=
  /// P[pair][key] * V[key][e], from zero.
  __device__ void start_output(int tile, const uint32_t (&p)[kQuarters][4],
                               float (&acc)[kHeadDim / 2]) {
    const uint64_t v =
        swizzled_descriptor(shared_.tiles[tile % kSlots].v.bytes, Matrix::kRegionBytes);
    begin_steps();
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
      warpgroup_step<true>(acc, p[i][0], p[i][1], p[i][2], p[i][3],
                           v + i * (kQuarterTokens * kSwizzledRowBytes / 16), i > 0);
    }
    end_steps();
  }
  __device__ void release(int tile) {
    if (threadIdx.x % 32 == 0) arrive(&shared_.empty[tile % kSlots]);
  }
  /// m and l of a lane's two pairs after a tile.
  struct TileState {
    float m[2], l[2];
  };
  /// Turns the scores in flight into the tile's state and acc, and starts the next tile's scores.
  template <bool kSeesAll>
  __device__ TileState attend_to(int tile, float (&acc)[kHeadDim / 2]);
  __device__ void merge_whole(const TileState& state);
  __device__ void merge_seen(int tile, const TileState& state);
  __device__ void merge_group(int h, bool first);

  WarpgroupShared<kHeadDim, kWarpgroups>& shared_;
  int number_;  // of this warpgroup
  int pair_[2], num_keys_[2], num_tiles_;
  int whole_groups_;               // groups that all pairs see whole, without the last one
  uint64_t q_;                     // descriptor of the queries
  float scores_[kTileTokens / 2];  // QuarterScores of the four quarters
  // Element 8 n + 2 t + c of pair quad + 8 h is acc[4 n + 2 h + c].
  float acc_[kHeadDim / 2];  // of the tile
  float group_[kHeadDim / 2];
  float group_m_[2], group_l_[2];
  float result_m_[2], result_l_[2];  // of the groups so far; their acc is in shared memory
};

template <int kHeadDim, int kWarpgroups>
template <bool kSeesAll>
__device__ inline typename WarpgroupOfQueries<kHeadDim, kWarpgroups>::TileState
WarpgroupOfQueries<kHeadDim, kWarpgroups>::attend_to(int tile, float (&acc)[kHeadDim / 2]) {
  wait_for_steps<0>();
  pin(scores_);
  QuarterScores s[kQuarters];
#pragma unroll
  for (int i = 0; i < kTileTokens / 2; ++i) s[i / 8][i / 4 % 2][i % 4] = scores_[i];
  LaneState<kHeadDim> state[2];  // but for acc
  uint32_t p[kQuarters][4];
  if (kSeesAll) {
    softmax_lane<kHeadDim, 2>(s, {kTileTokens, kTileTokens}, state, p);
  } else {
    const int before = tile * kTileTokens;
    softmax_lane<kHeadDim, 2>(s, {num_keys_[0] - before, num_keys_[1] - before}, state, p);
  }
  if (kWarpgroups == 2) take_turn(number_);
  start_output(tile, p, acc);
  const TileState known{{state[0].m, state[1].m}, {quad_sum(state[0].l), quad_sum(state[1].l)}};
  if (kSeesAll || tile + 1 < num_tiles_) {
    start_scores(tile + 1);
    if (kWarpgroups == 2) give_turn(1 - number_);
    wait_for_steps<1>();
  } else {
    if (kWarpgroups == 2) give_turn(1 - number_);
    wait_for_steps<0>();
  }
  pin(acc);
  release(tile);
  return known;
}

/// Merges a complete group into the result.
template <int kHeadDim, int kWarpgroups>
__device__ inline void WarpgroupOfQueries<kHeadDim, kWarpgroups>::merge_group(int h, bool first) {
  const Merge merge = Merge::of(first ? group_m_[h] : result_m_[h], group_m_[h]);
  result_l_[h] = first ? group_l_[h] : merge(result_l_[h], group_l_[h]);
  result_m_[h] = merge.m;
  const auto group = [&](int n) { return &group_[4 * n + 2 * h]; };
  if (first) {
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      shared_.result[n][h][threadIdx.x] = {group(n)[0], group(n)[1]};
    }
    return;
  }
  float2 result[kHeadDim / 8];  // all loads are in flight together
#pragma unroll
  for (int n = 0; n < kHeadDim / 8; ++n) result[n] = shared_.result[n][h][threadIdx.x];
#pragma unroll
  for (int n = 0; n < kHeadDim / 8; ++n) {
    shared_.result[n][h][threadIdx.x] = {merge(result[n].x, group(n)[0]),
                                         merge(result[n].y, group(n)[1])};
  }
}

/// Merges a tile into its group; all pairs see it whole.
template <int kHeadDim, int kWarpgroups>
__device__ inline void WarpgroupOfQueries<kHeadDim, kWarpgroups>::merge_whole(
    const TileState& state) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const Merge merge = Merge::of(group_m_[h], state.m[h]);
    group_m_[h] = merge.m;
    group_l_[h] = merge(group_l_[h], state.l[h]);
#pragma unroll
    for (int i = 2 * h; i < kHeadDim / 2; i += i % 2 == 0 ? 1 : 3) {
      group_[i] = merge(group_[i], acc_[i]);
    }
  }
}

/// The same for tiles after the whole groups. A pair that does not see the tile does not merge it.
template <int kHeadDim, int kWarpgroups>
__device__ inline void WarpgroupOfQueries<kHeadDim, kWarpgroups>::merge_seen(
    int tile, const TileState& state) {
  const bool first = tile % kGroupTiles == 0;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const bool seen = num_keys_[h] > tile * kTileTokens;
    if (seen && first && tile > whole_groups_ * kGroupTiles) {
      merge_group(h, tile == kGroupTiles);  // the group before is complete
    }
    const Merge merge = Merge::of(first ? state.m[h] : group_m_[h], state.m[h]);
    const auto join = [&](float& group, float of_tile) {
      const float merged = merge(group, of_tile);
      const float joined = first ? of_tile : merged;
      group = seen ? joined : group;
    };
    join(group_l_[h], state.l[h]);
    group_m_[h] = seen ? merge.m : group_m_[h];
#pragma unroll
    for (int i = 2 * h; i < kHeadDim / 2; i += i % 2 == 0 ? 1 : 3) join(group_[i], acc_[i]);
  }
}

template <int kHeadDim, int kWarpgroups>
__device__ inline void WarpgroupOfQueries<kHeadDim, kWarpgroups>::attend(int tiles_of_cta) {
  if (number_ == 1) give_turn(0);
  if (num_tiles_ > 0) start_scores(0);
  for (int group = 0; group < whole_groups_; ++group) {
    const TileState first = attend_to<true>(group * kGroupTiles, group_);
#pragma unroll
    for (int h = 0; h < 2; ++h) group_m_[h] = first.m[h], group_l_[h] = first.l[h];
    for (int i = 1; i < kGroupTiles; ++i) {
      merge_whole(attend_to<true>(group * kGroupTiles + i, acc_));
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) merge_group(h, group == 0);
  }
  for (int tile = whole_groups_ * kGroupTiles; tile < num_tiles_; ++tile) {
    merge_seen(tile, attend_to<false>(tile, acc_));
  }
  for (int tile = num_tiles_; tile < tiles_of_cta; ++tile) {  // only the other warpgroup sees them
    wait_for_phase(&shared_.full[tile % kSlots], tile / kSlots & 1);
    take_turn(number_);
    give_turn(1 - number_);
    release(tile);
  }
}

template <int kHeadDim, int kWarpgroups>
__device__ inline void WarpgroupOfQueries<kHeadDim, kWarpgroups>::store(const Queries& queries,
                                                                        const Pairs& pairs) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (num_keys_[h] == 0) continue;
    if (num_keys_[h] > whole_groups_ * kGroupTokens) merge_group(h, num_keys_[h] <= kGroupTokens);
    LaneState<kHeadDim> result;
    result.l = result_l_[h];
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      const float2 two = shared_.result[n][h][threadIdx.x];
      result.acc[2 * n] = two.x;
      result.acc[2 * n + 1] = two.y;
    }
    store_result<kHeadDim>(result, out_row(queries, pairs, pair_[h]));
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
  group.store(queries, pairs);
#endif
}

}  // namespace kv::hopper
