#pragma once

// Attention for many queries of a sequence (a prefill): a CTA takes 64 pairs and walks over the
// tiles of keys they see, K and V streaming through shared memory, two tiles deep.
//
// Floor for n tokens of one sequence: 2 n^2 num_heads head_dim operations (the causal half of two
// products); bytes hardly matter. A pair's group is in registers. Its result, used once in four
// tiles, is in shared memory, each lane's part in a column of its own.

#include "kernels/attention/rows.cuh"
#include "kernels/attention/warp_tile.cuh"
#include "kernels/launch.cuh"

namespace kv::attention {

inline constexpr int kManyWarps = 4;
inline constexpr int kManyThreads = 32 * kManyWarps;
inline constexpr int kManyPairs = kManyWarps * kMmaPairs;  // pairs of one CTA

/// A tile of K and one of V in shared memory: rows of 16-byte pieces. Pieces change places within
/// their row (exclusive or), so that both kinds of reads use all banks. A read of K takes two
/// pieces of four rows at a time, a read of V by ldmatrix one piece of eight rows.
template <int kHeadDim>
struct ManyTile {
  static constexpr int kPieces = kHeadDim / 8;
  static constexpr int kStrideK = (kPieces + 3) / 4 * 4;  // pieces from a row to the next
  static constexpr int kStrideV = kStrideK;

  uint4 k[kTileTokens * kStrideK];
  uint4 v[kTileTokens * kStrideV];

  __device__ const uint4* k_piece(int row, int piece) const { return &k[index(row, piece)]; }
  __device__ const uint4* v_piece(int row, int piece) const { return &v[index(row, piece)]; }
  /// The place of a piece; that of row + 8 is 8 strides further on. Rows of 4 (mod 8) pieces need
  /// no exchange: they alternate between the banks' halves.
  __device__ static int index(int row, int piece) {
    const int halves = kStrideK % 8 == 0 ? (row & 1) << 2 : 0;
    return row * kStrideK + (piece ^ (halves | (row & 2) | (row >> 2 & 1)));
  }
};

/// Everything a CTA keeps in shared memory: 96 KiB for head_dim 128, what every GPU from sm_80 on
/// can give (99 KiB), and twice that on those with room for two CTAs.
template <int kHeadDim>
struct ManyShared {
  ManyTile<kHeadDim> tiles[2];
  float2 result[kHeadDim / 8][2][kManyThreads];  // [n][h]: elements 8 n + 2 t, + 1 of quad + 8 h
};

/// The result so far of pair quad + 8 h: m and l in registers, acc in this thread's column of
/// shared memory.
template <int kHeadDim>
struct SharedResult {
  float2 (&acc)[kHeadDim / 8][2][kManyThreads];
  float m[2] = {kNoKey, kNoKey};
  float l[2] = {};

  /// Turns a complete group into the merge of the result so far and the group.
  __device__ void append_to(LaneState<kHeadDim>& group, int h, bool first) const {
    const Merge merge = Merge::of(m[h], group.m);
    group.l = merge(l[h], quad_sum(group.l));
    group.m = merge.m;
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      const float2 before = first ? float2{} : acc[n][h][threadIdx.x];
      group.acc[2 * n] = merge(before.x, group.acc[2 * n]);
      group.acc[2 * n + 1] = merge(before.y, group.acc[2 * n + 1]);
    }
  }
  /// Keeps it.
  __device__ void keep(const LaneState<kHeadDim>& merged, int h) {
    m[h] = merged.m;
    l[h] = merged.l;
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      acc[n][h][threadIdx.x] = {merged.acc[2 * n], merged.acc[2 * n + 1]};
    }
  }
};

/// A tile in flight whose rows are complete when they arrive. Rows in FP8 must be widened after
/// that (fp8/fp8_many_tiles.cuh).
struct ComingRows {};
template <int kHeadDim>
__device__ inline void finish_tile(ManyTile<kHeadDim>&, const ComingRows&) {}

/// Starts the copies of one tile. Rows of tokens from `end` on are not read and become zeros. Rows
/// of tokens before `begin` are copies of the row of `begin`.
template <int kHeadDim, class RowOf>
__device__ inline ComingRows start_tile(ManyTile<kHeadDim>& tile, const RowsBy<RowOf>& rows,
                                        int tile_begin, int begin, int end) {
  constexpr int kPieces = ManyTile<kHeadDim>::kPieces;
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x); i < kTileTokens * kPieces; i += kManyThreads) {
    const int row = i / kPieces;
    const int piece = i % kPieces;
    const bool in_range = tile_begin + row < end;
    const int token = in_range ? max(tile_begin + row, begin) : begin;
    const int to = ManyTile<kHeadDim>::index(row, piece);
    copy_16(&tile.k[to], rows.k_row(token) + 8 * piece, in_range);
    copy_16(&tile.v[to], rows.v_row(token) + 8 * piece, in_range);
  }
  commit_copies();
  return {};
}

/// For each key: acc[pair][e] += P[pair][key] * V[key][e]. All e are in flight at once.
template <int kHeadDim>
__device__ inline void weigh_all_columns(const ManyTile<kHeadDim>& tile,
                                         const uint32_t (&p)[kQuarters][4],
                                         LaneState<kHeadDim> (&group)[2]) {
  float acc[kHeadDim / 8][4];
#pragma unroll
  for (int n = 0; n < kHeadDim / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) acc[n][i] = group[i / 2].acc[2 * n + i % 2];
  }
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int quarter = 0; quarter < kQuarters; ++quarter) {
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; n += 2) {
      const uint4* row = tile.v_piece(lane % 16, n + lane / 16) +
                         quarter * kQuarterTokens * ManyTile<kHeadDim>::kStrideV;
      uint32_t b[4];
      load_v_operands(b, shared_address(row));
      mma_step(acc[n], p[quarter], b[0], b[1]);
      mma_step(acc[n + 1], p[quarter], b[2], b[3]);
    }
  }
#pragma unroll
  for (int n = 0; n < kHeadDim / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) group[i / 2].acc[2 * n + i % 2] = acc[n][i];
  }
}

/// Adds one tile. Pair quad + 8 h sees the tile's keys before[h] .. visible[h] - 1. `hides`: a pair
/// of the CTA does not see the tile's first key.
template <int kHeadDim>
__device__ inline void attend_to_tile_by_warp(const ManyTile<kHeadDim>& tile,
                                              const QueryRows<kHeadDim>& q, const int (&before)[2],
                                              const int (&visible)[2], bool hides,
                                              LaneState<kHeadDim> (&group)[2]) {
  QuarterScores s[kQuarters];
  uint32_t p[kQuarters][4];
  score_tile<kHeadDim>(tile, q, s);
  if (hides) hide_front<2>(s, before);
  softmax_tile<kHeadDim, 2>(s, visible, group, p);
  weigh_all_columns<kHeadDim>(tile, p, group);
}

/// Grid: (blocks of 64 pairs of the longest query range, num_kv_heads, num_seqs); long blocks
/// first. Warp w of the CTA has pairs 16 w .. 16 w + 15 of the block; lanes as in LaneState.
template <int kHeadDim, class Address>
__global__ void __launch_bounds__(kManyThreads, 2)
    many_queries_kernel(Queries queries, Address address) {
  let_successors_start();
  wait_for_predecessors();
  auto* const shared_bytes = kv::dynamic_shared<unsigned char>();
  auto& shared = *reinterpret_cast<ManyShared<kHeadDim>*>(shared_bytes);

  const int seq = static_cast<int>(blockIdx.z);
  const int kv_head = static_cast<int>(blockIdx.y);
  const int first_pair = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kManyPairs;
  const Pairs pairs = pairs_of(queries, seq, kv_head, true);
  if (first_pair >= pairs.count()) return;
  const auto rows = address.rows(seq, kv_head);

  const int last_pair = min(first_pair + kManyPairs, pairs.count()) - 1;
  const int keys_begin = pairs.first_key(first_pair), keys_end = pairs.num_keys(last_pair);
  const int all_see_from = pairs.first_key(last_pair);
  const int first_tile = keys_begin / kTileTokens;
  const int num_tiles = (keys_end + kTileTokens - 1) / kTileTokens;
  auto coming = start_tile(shared.tiles[first_tile % 2], rows, first_tile * kTileTokens, keys_begin,
                           keys_end);

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const LanePairs<kHeadDim, 2> mine(queries, pairs, first_pair + kMmaPairs * warp, last_pair);
  SharedResult<kHeadDim> result{shared.result};
  LaneState<kHeadDim> group[2];
  for (int i = first_tile; i < num_tiles; ++i) {
    wait_for_copies<0>();
    finish_tile(shared.tiles[i % 2], coming);
    __syncthreads();  // tile i has arrived, and all warps have read tile i - 1
    if (i + 1 < num_tiles) {
      coming =
          start_tile(shared.tiles[(i + 1) % 2], rows, (i + 1) * kTileTokens, keys_begin, keys_end);
    }
    const int at = i * kTileTokens;
    const int before[2] = {mine.first_key[0] - at, mine.first_key[1] - at};
    const int visible[2] = {mine.num_keys[0] - at, mine.num_keys[1] - at};
    if (i == first_tile || i % kGroupTiles == 0) {
      for (auto& of_pair : group) of_pair.begin();
    }
    const bool sees =
        (visible[0] > 0 && before[0] < kTileTokens) || (visible[1] > 0 && before[1] < kTileTokens);
    if (__any_sync(kFullWarp, sees)) {
      attend_to_tile_by_warp<kHeadDim>(shared.tiles[i % 2], mine.q, before, visible,
                                       at < all_see_from, group);
    }
    if (i % kGroupTiles != kGroupTiles - 1 && i + 1 != num_tiles) continue;
    const bool first = same_group(at, keys_begin);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      result.append_to(group[h], h, first);
      if (i + 1 < num_tiles) {
        result.keep(group[h], h);
      } else if (mine.num_keys[h] > 0) {
        store_result<kHeadDim>(group[h], out_row(queries, pairs, mine.pair[h]));
      }
    }
  }
}

}  // namespace kv::attention
