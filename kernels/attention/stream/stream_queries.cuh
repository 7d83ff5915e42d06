#pragma once

// Attention for few queries of a sequence over much K and V. A CTA is one warp; it streams the K
// and V of a group through shared memory, a tile at a time. Warps do not wait for each other. Six
// such CTAs share an SM of an H200: while one of them computes, the copies of the other five are in
// flight. A second, small kernel merges the groups (merge_groups.cuh).
//
// Floor: K and V of every token read once, 2 seq_len num_kv_heads head_dim 2 bytes per sequence.

#include "kernels/attention/stream/stream_copies.cuh"
#include "kernels/attention/warp_tile.cuh"
#include "kernels/launch.cuh"

namespace kv::attention {

/// For each key: acc[pair][e] += P[pair][key] * V[key][e]. 16 e at once: few registers.
template <int kHeadDim, int kHalves>
__device__ inline void weigh_two_columns_at_a_time(const StreamTile<kHeadDim>& tile,
                                                   const uint32_t (&p)[kQuarters][4],
                                                   LaneState<kHeadDim> (&group)[kHalves]) {
  constexpr int kStride = StreamTile<kHeadDim>::kStrideV;
  const int lane = static_cast<int>(threadIdx.x);
  const uint32_t first = shared_address(tile.v_piece(lane % 16, lane / 16));
#pragma unroll
  for (int n = 0; n < kHeadDim / 8; n += 2) {
    float c[2][4] = {};
#pragma unroll
    for (int i = 0; i < 2 * kHalves; ++i) {
      c[0][i] = group[i / 2].acc[2 * n + i % 2];
      c[1][i] = group[i / 2].acc[2 * n + 2 + i % 2];
    }
#pragma unroll
    for (int quarter = 0; quarter < kQuarters; ++quarter) {
      uint32_t b[4];
      load_v_operands(b, first + 16 * (quarter * kQuarterTokens * kStride + n));
      mma_step(c[0], p[quarter], b[0], b[1]);
      mma_step(c[1], p[quarter], b[2], b[3]);
    }
#pragma unroll
    for (int i = 0; i < 2 * kHalves; ++i) {
      group[i / 2].acc[2 * n + i % 2] = c[0][i];
      group[i / 2].acc[2 * n + 2 + i % 2] = c[1][i];
    }
  }
}

/// Stores a group's partial result of pair quad + 8 h for merge_groups_kernel.
template <int kHeadDim>
__device__ inline void leave_partial(const LaneState<kHeadDim>& group, int h,
                                     PartialGroup<kHeadDim>& partial) {
  const int pair = static_cast<int>(threadIdx.x) / 4 + 8 * h;
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int n = 0; n < kHeadDim / 8; ++n) {
    *reinterpret_cast<float2*>(&partial.acc[pair][8 * n + 2 * t]) = {group.acc[2 * n],
                                                                     group.acc[2 * n + 1]};
  }
  if (t == 0) {
    partial.m[pair] = group.m;
    partial.l[pair] = group.l;
  }
}

/// Grid: (num_kv_heads, groups of the longest sequence, num_seqs * blocks of 8 kHalves pairs); 32
/// threads, lanes as in LaneState. Neighbouring CTAs read neighbouring heads of the same tokens. A
/// sequence of one group gets its result here. Otherwise each group's partial result goes to
/// partials[num_seqs * blocks, num_kv_heads, max_groups], counted from the first group that the
/// block sees.
template <int kHeadDim, int kHalves, bool kWindow, class Address>
__global__ void __launch_bounds__(32, 1)
    stream_queries_kernel(Queries queries, Address address, PartialGroup<kHeadDim>* partials,
                          int max_groups, int blocks_per_seq) {
  let_successors_start();
  constexpr int kPairs = 8 * kHalves;
  auto* const shared_bytes = kv::dynamic_shared<unsigned char>();
  auto& shared = *reinterpret_cast<StreamTile<kHeadDim>*>(shared_bytes);

  const int kv_head = static_cast<int>(blockIdx.x);
  const int seq = static_cast<int>(blockIdx.z) / blocks_per_seq;
  const int first_pair = static_cast<int>(blockIdx.z) % blocks_per_seq * kPairs;
  const Pairs pairs = pairs_of(queries, seq, kv_head, kWindow);
  const int last_pair = min(first_pair + kPairs, pairs.count()) - 1;
  const int keys_begin = pairs.first_key(first_pair), keys_end = pairs.num_keys(last_pair);
  const int all_see_from = pairs.first_key(last_pair);
  const int first_group = keys_begin / kGroupTokens;
  const int index = static_cast<int>(blockIdx.y);
  const int group_begin = (first_group + index) * kGroupTokens;
  const int begin = max(group_begin, keys_begin / kTileTokens * kTileTokens);
  const int end = min(group_begin + kGroupTokens, keys_end);
  if (first_pair > last_pair || begin >= keys_end) {
    wait_for_predecessors();
    return;
  }

  StreamCopies copies(shared, address.rows(seq, kv_head), keys_begin, end);
  copies.find_rows(begin);
  // Tokens of earlier passes were written before this pass began; its own rows come later.
  const bool early = min(begin + kTileTokens, end) <= num_earlier_tokens(pairs);
  if (!early) wait_for_predecessors();
  copies.start_k(begin);
  copies.start_v(begin);
  if (early) wait_for_predecessors();

  const LanePairs<kHeadDim, kHalves> mine(queries, pairs, first_pair, last_pair);
  LaneState<kHeadDim> group[kHalves];
  for (auto& of_pair : group) of_pair.begin();
  for (int tile_begin = begin; tile_begin < end; tile_begin += kTileTokens) {
    const int next = tile_begin + kTileTokens;
    copies.find_rows(next);
    int before[2], visible[2];
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      before[h] = mine.first_key[h] - tile_begin;
      visible[h] = mine.num_keys[h] - tile_begin;
    }
    QuarterScores s[kQuarters];
    uint32_t p[kQuarters][4];
    wait_for_all_but_one();  // K has arrived, V may not have
    score_tile<kHeadDim>(shared, mine.q, s);
    __syncwarp();  // all lanes have read K
    copies.start_k(next);
    if (tile_begin < all_see_from) hide_front<kHalves>(s, before);
    softmax_tile<kHeadDim, kHalves>(s, visible, group, p);
    wait_for_all_but_one();  // V has arrived, the next K may not have
    weigh_two_columns_at_a_time<kHeadDim, kHalves>(shared, p, group);
    __syncwarp();  // all lanes have read V
    copies.start_v(next);
  }
  wait_for_copies<0>();

  const bool one_group = same_group(keys_begin, keys_end - 1);
  partials += (static_cast<int64_t>(blockIdx.z) * gridDim.x + kv_head) * max_groups + index;
#pragma unroll
  for (int h = 0; h < kHalves; ++h) {
    group[h].l = quad_sum(group[h].l);
    if (!one_group && mine.num_keys[h] > group_begin && mine.first_key[h] < end) {
      leave_partial<kHeadDim>(group[h], h, *partials);
    }
    if (one_group && mine.num_keys[h] > 0) {
      store_result<kHeadDim>(group[h], out_row(queries, pairs, mine.pair[h]));
    }
  }
}

}  // namespace kv::attention
