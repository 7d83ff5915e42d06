#pragma once

// Attention for many queries on Hopper: what many_queries.cuh computes, by warpgroups (wgmma).
//
// A CTA has one or two warpgroups that compute, each 64 pairs, and one that copies. K and V come
// as tiles into a ring in shared memory, in the pieces of 8 rows x 16 bytes that wgmma reads. The
// bits are the same because the sums are: a step of the scores takes the 16 elements that
// mma_piece takes for a step, 4 of each 16 bytes. So 8 bytes at a time of K and of the queries go
// to where their step finds them while they are copied. V is read as it is.
//
// While a warpgroup merges tile i into its group, its scores of tile i + 1 are under way; while it
// works on its softmax, the other one's steps run.

#include "kernels/attention/many_queries.cuh"
#include "kernels/warpgroup.cuh"

namespace kv::attention {

inline constexpr int kWarpgroupThreads = 128;
inline constexpr int kWarpgroupPairs = 64;

/// A tile as the steps want it: [row / 8][piece][row % 8] pieces of 16 bytes. Those of K have 4
/// elements of one 16-byte piece of the row and 4 of the next one; those of V are as in the row.
template <int kHeadDim>
struct StepTile {
  static constexpr int kPieces = kHeadDim / 8;
  static constexpr int kPieceBytes = 8 * 16;                // of eight rows
  static constexpr int kRowsBytes = kPieces * kPieceBytes;  // of eight whole rows
  unsigned char k[kTileTokens / 8 * kRowsBytes];
  unsigned char v[kTileTokens / 8 * kRowsBytes];
};

template <int kHeadDim, int kWarpgroups>
struct WarpgroupShared {
  static constexpr int kSlots = 4;
  StepTile<kHeadDim> tiles[kSlots];
  unsigned char queries[kWarpgroups][kWarpgroupPairs / 8 * StepTile<kHeadDim>::kRowsBytes];
  float2 result[kHeadDim / 8][2][kWarpgroups * kWarpgroupThreads];  // [n][h], each lane's own
  uint64_t full[kSlots], empty[kSlots];
};

#if KV_WARPGROUPS

/// Starts the copies of one tile; four warps. A lane has one row of eight, and a quarter of each 64
/// bytes of it. Tokens from keys_end on become zeros.
template <int kHeadDim, class Rows>
__device__ inline void start_step_tile(StepTile<kHeadDim>& tile, const Rows& rows, int tile_begin,
                                       int keys_end) {
  using Tile = StepTile<kHeadDim>;
  const int warp = static_cast<int>(threadIdx.x) % kWarpgroupThreads / 32;
  const int row = static_cast<int>(threadIdx.x) % 8, t = static_cast<int>(threadIdx.x) % 32 / 8;
#pragma unroll
  for (int eight = warp; eight < kTileTokens / 8; eight += 4) {
    const int token = tile_begin + 8 * eight + row;
    const bool valid = token < keys_end;
    const bf16* k_row = rows.k_row(valid ? token : 0) + 8 * t;
    const bf16* v_row = rows.v_row(valid ? token : 0) + 8 * t;
    unsigned char* const k = tile.k + eight * Tile::kRowsBytes + row * 16;
    unsigned char* const v = tile.v + eight * Tile::kRowsBytes + row * 16;
#pragma unroll
    for (int i = 0; i < kHeadDim / 32; ++i) {  // 32 elements: two steps of two pieces
      unsigned char* const first_step = k + (4 * i + t / 2) * Tile::kPieceBytes + t % 2 * 8;
      copy_8(first_step, k_row + 32 * i, valid);
      copy_8(first_step + 2 * Tile::kPieceBytes, k_row + 32 * i + 4, valid);
      copy_16(v + (4 * i + t) * Tile::kPieceBytes, v_row + 32 * i, valid);
    }
  }
}

/// The warpgroup that copies. A tile is handed over two tiles after its copies were started.
template <int kHeadDim, int kWarpgroups, class Rows>
__device__ inline void copy_tiles(WarpgroupShared<kHeadDim, kWarpgroups>& shared, const Rows& rows,
                                  int keys_end, int num_tiles) {
  constexpr int kSlots = WarpgroupShared<kHeadDim, kWarpgroups>::kSlots, kAhead = 2;
  for (int i = 0; i < num_tiles + kAhead; ++i) {
    if (i < num_tiles) {
      if (i >= kSlots) wait_for_phase(&shared.empty[i % kSlots], (i / kSlots - 1) & 1);
      start_step_tile<kHeadDim>(shared.tiles[i % kSlots], rows, i * kTileTokens, keys_end);
    }
    commit_copies();
    if (i < kAhead) continue;
    wait_for_copies<kAhead>();
    publish_copies();
    arrive(&shared.full[(i - kAhead) % kSlots]);
  }
}

/// The rows of 64 pairs' queries, in pieces like those of K. Pairs that do not exist work on the
/// last one's row; they are not stored.
template <int kHeadDim>
__device__ inline void copy_queries(unsigned char* to, const Queries& queries, const Pairs& pairs,
                                    int first_pair) {
  using Tile = StepTile<kHeadDim>;
  const int warp = static_cast<int>(threadIdx.x) % kWarpgroupThreads / 32;
  const int row = static_cast<int>(threadIdx.x) % 8, t = static_cast<int>(threadIdx.x) % 32 / 8;
  for (int eight = warp; eight < kWarpgroupPairs / 8; eight += 4) {
    const int pair = min(first_pair + 8 * eight + row, pairs.count() - 1);
    const bf16* from = q_row(queries, pairs, pair) + 8 * t;
    unsigned char* const at = to + eight * Tile::kRowsBytes + row * 16;
#pragma unroll
    for (int i = 0; i < kHeadDim / 32; ++i) {
      unsigned char* const first_step = at + (4 * i + t / 2) * Tile::kPieceBytes + t % 2 * 8;
      copy_8(first_step, from + 32 * i, true);
      copy_8(first_step + 2 * Tile::kPieceBytes, from + 32 * i + 4, true);
    }
  }
}

/// A warpgroup that computes.
template <int kHeadDim, int kWarpgroups>
class WarpgroupOfQueries {
 public:
  __device__ WarpgroupOfQueries(WarpgroupShared<kHeadDim, kWarpgroups>& shared,
                                const Queries& queries, const Pairs& pairs, int first_pair,
                                int number)
      : shared_(shared),
        q_(matrix_descriptor(shared.queries[number], Tile::kPieceBytes, Tile::kRowsBytes)) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) % kWarpgroupThreads / 32;
    const int last_pair = min(first_pair + kWarpgroupPairs, pairs.count()) - 1;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      pair_[h] = first_pair + kMmaPairs * warp + lane / 4 + 8 * h;
      num_keys_[h] = pairs.num_keys(pair_[h]);
    }
    const bool any = first_pair <= last_pair;
    num_tiles_ = any ? (pairs.num_keys(last_pair) + kTileTokens - 1) / kTileTokens : 0;
  }

  __device__ void attend(int tiles_of_cta);
  __device__ void store(const Queries& queries, const Pairs& pairs);

 private:
  static constexpr int kSlots = WarpgroupShared<kHeadDim, kWarpgroups>::kSlots;
  using Tile = StepTile<kHeadDim>;

  __device__ void start_scores(int tile) {
    wait_for_phase(&shared_.full[tile % kSlots], tile / kSlots & 1);
    const uint64_t k =
        matrix_descriptor(shared_.tiles[tile % kSlots].k, Tile::kPieceBytes, Tile::kRowsBytes);
    begin_steps();
#pragma unroll
    for (int i = 0; i < kHeadDim / 16; ++i) {
      const int at = i * (2 * Tile::kPieceBytes / 16);
      warpgroup_step(scores_, q_ + at, k + at, i > 0);
    }
    end_steps();
  }
  __device__ void start_output(int tile, const uint32_t (&p)[kQuarters][4]) {
    const uint64_t v =
        matrix_descriptor(shared_.tiles[tile % kSlots].v, Tile::kRowsBytes, Tile::kPieceBytes);
    begin_steps();
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
      warpgroup_step<true>(acc_, p[i][0], p[i][1], p[i][2], p[i][3],
                           v + i * (2 * Tile::kRowsBytes / 16), i > 0);
    }
    end_steps();
  }
  __device__ void release(int tile) {
    if (threadIdx.x % 32 == 0) arrive(&shared_.empty[tile % kSlots]);
  }
  __device__ void softmax(int tile, LaneState<kHeadDim> (&state)[2], uint32_t (&p)[kQuarters][4]);
  __device__ void merge(int tile, const LaneState<kHeadDim> (&state)[2]);
  __device__ void merge_group(int h, bool first);

  WarpgroupShared<kHeadDim, kWarpgroups>& shared_;
  int pair_[2], num_keys_[2], num_tiles_;
  uint64_t q_;                     // where the queries are
  float scores_[kTileTokens / 2];  // QuarterScores of the four quarters
  // Of pair quad + 8 h: elements 8 n + 2 t + c are acc[4 n + 2 h + c].
  float acc_[kHeadDim / 2];  // of the tile
  float group_[kHeadDim / 2];
  float group_m_[2], group_l_[2];
  float result_m_[2], result_l_[2];  // of the groups before: acc is in shared memory
};

template <int kHeadDim, int kWarpgroups>
__device__ inline void WarpgroupOfQueries<kHeadDim, kWarpgroups>::softmax(
    int tile, LaneState<kHeadDim> (&state)[2], uint32_t (&p)[kQuarters][4]) {
  QuarterScores s[kQuarters];
#pragma unroll
  for (int i = 0; i < kTileTokens / 2; ++i) s[i / 8][i / 4 % 2][i % 4] = scores_[i];
  const int visible[2] = {num_keys_[0] - tile * kTileTokens, num_keys_[1] - tile * kTileTokens};
  const bool all = visible[0] >= kTileTokens && visible[1] >= kTileTokens;
  if (__all_sync(kFullWarp, all)) {  // the same, without a comparison for each key
    softmax_tile<kHeadDim, 2>(s, {kTileTokens, kTileTokens}, state, p);
  } else {
    softmax_tile<kHeadDim, 2>(s, visible, state, p);
  }
}

/// The group is complete: it joins the result.
template <int kHeadDim, int kWarpgroups>
__device__ inline void WarpgroupOfQueries<kHeadDim, kWarpgroups>::merge_group(int h, bool first) {
  const Merge merge = Merge::of(first ? group_m_[h] : result_m_[h], group_m_[h]);
  result_l_[h] = first ? group_l_[h] : merge(result_l_[h], group_l_[h]);
  result_m_[h] = merge.m;
#pragma unroll
  for (int n = 0; n < kHeadDim / 8; ++n) {
    float2& result = shared_.result[n][h][threadIdx.x];
    const float2 group{group_[4 * n + 2 * h], group_[4 * n + 2 * h + 1]};
    result = first ? group : float2{merge(result.x, group.x), merge(result.y, group.y)};
  }
}

/// The tile joins its group. What a pair does not see is not merged: no trace.
template <int kHeadDim, int kWarpgroups>
__device__ inline void WarpgroupOfQueries<kHeadDim, kWarpgroups>::merge(
    int tile, const LaneState<kHeadDim> (&state)[2]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (num_keys_[h] <= tile * kTileTokens) continue;
    if (tile % kGroupTiles == 0) {  // a new group: the one before is complete
      if (tile > 0) merge_group(h, tile == kGroupTiles);
      group_m_[h] = state[h].m;
      group_l_[h] = state[h].l;
#pragma unroll
      for (int i = 2 * h; i < kHeadDim / 2; i += i % 2 == 0 ? 1 : 3) group_[i] = acc_[i];
    } else {
      const Merge merge = Merge::of(group_m_[h], state[h].m);
      group_m_[h] = merge.m;
      group_l_[h] = merge(group_l_[h], state[h].l);
#pragma unroll
      for (int i = 2 * h; i < kHeadDim / 2; i += i % 2 == 0 ? 1 : 3) {
        group_[i] = merge(group_[i], acc_[i]);
      }
    }
  }
}

template <int kHeadDim, int kWarpgroups>
__device__ inline void WarpgroupOfQueries<kHeadDim, kWarpgroups>::attend(int tiles_of_cta) {
  if (num_tiles_ > 0) start_scores(0);
  for (int tile = 0; tile < num_tiles_; ++tile) {
    wait_for_steps<0>();
    pin(scores_);
    LaneState<kHeadDim> state[2];
    uint32_t p[kQuarters][4];
    softmax(tile, state, p);
    start_output(tile, p);
    if (tile + 1 < num_tiles_) {
      start_scores(tile + 1);
      wait_for_steps<1>();
    } else {
      wait_for_steps<0>();
    }
    pin(acc_);
    release(tile);
    merge(tile, state);
  }
  for (int tile = num_tiles_; tile < tiles_of_cta; ++tile) {  // tiles that only the other one sees
    wait_for_phase(&shared_.full[tile % kSlots], tile / kSlots & 1);
    release(tile);
  }
}

template <int kHeadDim, int kWarpgroups>
__device__ inline void WarpgroupOfQueries<kHeadDim, kWarpgroups>::store(const Queries& queries,
                                                                        const Pairs& pairs) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (num_keys_[h] == 0) continue;
    merge_group(h, num_keys_[h] <= kGroupTokens);
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
template <int kHeadDim, int kWarpgroups, class Address>
__global__ void __launch_bounds__((kWarpgroups + 1) * kWarpgroupThreads, 1)
    warpgroup_queries_kernel(Queries queries, Address address) {
#if KV_WARPGROUPS
  auto& shared = *reinterpret_cast<WarpgroupShared<kHeadDim, kWarpgroups>*>(
      kv::dynamic_shared<unsigned char>());
  let_successors_start();
  if (threadIdx.x == 0) {
    for (int i = 0; i < WarpgroupShared<kHeadDim, kWarpgroups>::kSlots; ++i) {
      init_mbarrier(&shared.full[i], kWarpgroupThreads);
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
  // From one lane: so that the compiler knows it is the same in all of them.
  const int warpgroup =
      __shfl_sync(kFullWarp, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0);
  if (warpgroup == kWarpgroups) {
    if constexpr (kWarpgroups == 2) give_registers_back<40>();
    for (int i = 0; i < kWarpgroups; ++i) {  // they come with tile 0
      copy_queries<kHeadDim>(shared.queries[i], queries, pairs, first_pair + i * kWarpgroupPairs);
    }
    copy_tiles<kHeadDim, kWarpgroups>(shared, address.rows(seq, kv_head), keys_end, num_tiles);
    return;
  }
  if constexpr (kWarpgroups == 2) take_registers<232>();
  WarpgroupOfQueries<kHeadDim, kWarpgroups> group(
      shared, queries, pairs, first_pair + warpgroup * kWarpgroupPairs, warpgroup);
  group.attend(num_tiles);
  group.store(queries, pairs);
#endif
}

}  // namespace kv::attention
