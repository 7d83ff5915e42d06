#pragma once

// Attention for few queries of a sequence when there is much K and V: a CTA is one warp and streams
// the K and V of a run of groups through shared memory, a tile at a time. No warp waits for another
// one; six such CTAs share a multiprocessor of an H200, and while one of them computes the copies
// of the other five are in flight. A second, small kernel merges the groups (merge_groups.cuh).
//
// Floor: K and V of every token read once, 2 seq_len num_kv_heads head_dim 2 bytes per sequence.
// The products are not in the way: with nothing copied the kernel takes a third of the time.
//
// The road, measured on an H200 (64 sequences of 4,096 tokens, 16 heads, 8 KV heads of 128, blocks
// of 16 in random order; share of a plain 16-byte read of the same bytes):
//
//   version                                                       time   share
//   1  lesson 02's kernel, each row's address through the table  395 us   61 %
//   2  a warp per group, two tiles ahead: 3 CTAs on an SM        784 us   31 %
//   3  one tile ahead: 6 CTAs; a row is one bulk copy            307 us   78 %
//   4  copies of 16 bytes, a table lookup for each token         277 us   86 %
//   5  groups merged by a kernel of their own, nothing spilled   269 us   89 %

#include "kernels/attention/spread_queries.cuh"
#include "kernels/attention/tensor_tile.cuh"
#include "kernels/launch.cuh"

namespace kv::attention {

inline constexpr unsigned kFullWarp = 0xFFFFFFFFu;

/// A tile of K and one of V in shared memory: rows of 16-byte pieces. The strides spread both ways
/// of reading over all banks: K in four pieces of two rows at a time (stride 4 mod 8), V by
/// ldmatrix in one piece of eight rows (an odd stride).
template <int kHeadDim>
struct StreamTile {
  static constexpr int kPieces = kHeadDim / 8;
  static constexpr int kStrideK = (kPieces + 3) / 8 * 8 + 4;
  static constexpr int kStrideV = kPieces | 1;
  static_assert(kStrideK >= kPieces && kStrideV >= kPieces);

  uint4 k[(kTileTokens - 1) * kStrideK + kPieces];
  uint4 v[(kTileTokens - 1) * kStrideV + kPieces];
};

__device__ inline uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

/// 16 bytes into shared memory; zeros, and nothing is read, if not in_range.
__device__ inline void copy_piece(uint32_t to, const bf16* from, bool in_range) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(in_range ? 16 : 0)
               : "memory");
}

template <int kPending>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
  __syncwarp();
}

/// Slots of a tile's 64 tokens, two in each lane: of tokens lane and lane + 32.
using TileSlots = int[2];

/// The element of a row from which on this lane copies: the same of every row if 32 lanes copy
/// whole rows, else 0.
template <int kHeadDim>
__device__ inline int lane_element() {
  constexpr int kPieces = kHeadDim / 8;
  return 32 % kPieces == 0 ? static_cast<int>(threadIdx.x) % kPieces * 8 : 0;
}

/// Starts the copies of the first `count` rows of a tile; the others become zeros and are not read.
/// rows(slot) is a row's address from lane_element() on.
template <int kHeadDim, int kStride, class Rows>
__device__ inline void start_rows(uint4* to, const TileSlots& slots, int count, const Rows& rows) {
  constexpr int kPieces = kHeadDim / 8;
  const int lane = static_cast<int>(threadIdx.x);
  if constexpr (32 % kPieces == 0) {
    constexpr int kRows = 32 / kPieces;  // in one step
    constexpr int kUnroll = 8;           // more, and the addresses do not fit in the registers
    const int row = lane / kPieces;
    const uint32_t first = shared_address(to + row * kStride + lane % kPieces);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll kUnroll
      for (int j = 0; j < 32 / kRows; ++j) {
        const int r = kRows * j + row;
        const int slot = __shfl_sync(kFullWarp, slots[half], r);
        copy_piece(first + 16 * kStride * (32 * half + kRows * j), rows(slot),
                   r < count - 32 * half);
      }
    }
  } else {
#pragma unroll 4
    for (int j = 0; j < kTileTokens * kPieces / 32; ++j) {
      const int r = (lane + 32 * j) / kPieces;
      const int piece = (lane + 32 * j) % kPieces;
      const int low = __shfl_sync(kFullWarp, slots[0], r % 32);
      const int high = __shfl_sync(kFullWarp, slots[1], r % 32);
      copy_piece(shared_address(to + r * kStride + piece), rows(r < 32 ? low : high) + 8 * piece,
                 r < count);
    }
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// What a warp knows about its pairs after some keys: m, l and acc of pairs quad + 8 h. With at
/// most 8 pairs (kHalves 1) there is no h = 1.
template <int kHeadDim, int kHalves>
struct StreamState {
  float acc[kHeadDim / 8][kHalves][2];
  float m[kHalves];
  float l[kHalves];

  __device__ void append(const StreamState& b, int h) {
    const Merge merge(m[h], b.m[h]);
    m[h] = merge.m;
    l[h] = merge(l[h], b.l[h]);
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      acc[n][h][0] = merge(acc[n][h][0], b.acc[n][h][0]);
      acc[n][h][1] = merge(acc[n][h][1], b.acc[n][h][1]);
    }
  }
  __device__ void copy(const StreamState& b, int h) {
    m[h] = b.m[h];
    l[h] = b.l[h];
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      acc[n][h][0] = b.acc[n][h][0];
      acc[n][h][1] = b.acc[n][h][1];
    }
  }
};

/// Scores of the warp's pairs against the tile's 64 keys.
template <int kHeadDim>
__device__ inline void stream_scores(const StreamTile<kHeadDim>& tile,
                                     const uint4 (&q)[kRowPieces<kHeadDim>][2],
                                     QuarterScores (&s)[kQuarters]) {
  const int quad = static_cast<int>(threadIdx.x) / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (auto& quarter : s) {
#pragma unroll
    for (int i = 0; i < 8; ++i) quarter[i / 4][i % 4] = 0.0f;
  }
#pragma unroll
  for (int i = 0; i < kRowPieces<kHeadDim>; ++i) {
    const bool half = is_half<kHeadDim>(i);
    const uint4* piece =
        &tile.k[quad * StreamTile<kHeadDim>::kStrideK + 4 * i + (half ? t / 2 : t)];
#pragma unroll
    for (int n = 0; n < kTileTokens / 8; ++n) {
      uint4 k = {};
      if (half) {
        const uint2 x =
            reinterpret_cast<const uint2*>(piece + 8 * n * StreamTile<kHeadDim>::kStrideK)[t % 2];
        k = {x.x, x.y, 0, 0};
      } else {
        k = piece[8 * n * StreamTile<kHeadDim>::kStrideK];
      }
      mma_piece<kHeadDim>(s[n / 2][n % 2], q[i], k, i);
    }
  }
}

/// m and l of the tile, and P as operand A.
template <int kHeadDim, int kHalves>
__device__ inline void stream_softmax(QuarterScores (&s)[kQuarters], const int (&visible)[2],
                                      StreamState<kHeadDim, kHalves>& tile,
                                      uint32_t (&p)[kQuarters][4]) {
  const int t = static_cast<int>(threadIdx.x) % 4;
  const float scale = score_scale<kHeadDim>();
#pragma unroll
  for (int h = 0; h < kHalves; ++h) {
    float largest = -INFINITY;
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
      largest = fmaxf(largest, lane_max(s[i], h, visible[h] - i * kQuarterTokens, t));
    }
    tile.m[h] = quad_max(largest) * scale;
    float part[kQuarters];
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
      part[i] = quarter_softmax(s[i], h, visible[h] - i * kQuarterTokens, t, scale, tile.m[h]);
    }
    tile.l[h] = tile_sum(part[0], part[1], part[2], part[3]);
  }
#pragma unroll
  for (int i = 0; i < kQuarters; ++i) {
    if (kHalves == 1) s[i][0][2] = s[i][0][3] = s[i][1][2] = s[i][1][3] = 0.0f;
    quarter_operand(s[i], p[i]);
  }
}

/// acc = P V over the tile's keys, from zero.
template <int kHeadDim, int kHalves>
__device__ inline void stream_output(const StreamTile<kHeadDim>& tile,
                                     const uint32_t (&p)[kQuarters][4],
                                     StreamState<kHeadDim, kHalves>& state) {
  constexpr int kStride = StreamTile<kHeadDim>::kStrideV;
  const int lane = static_cast<int>(threadIdx.x);
  // ldmatrix: lanes 0-7 give the rows of matrix 0, 8-15 of 1, ...: keys 0-7 and 8-15 of eight
  // columns, then of the next eight. Transposed, they are b0 and b1 of two products.
  const uint32_t first = shared_address(&tile.v[lane % 16 * kStride + lane / 16]);
#pragma unroll
  for (int n = 0; n < kHeadDim / 8; n += 2) {
    float c[2][4] = {};
#pragma unroll
    for (int quarter = 0; quarter < kQuarters; ++quarter) {
      uint32_t b[4];
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                   : "r"(first + 16 * (quarter * kQuarterTokens * kStride + n))
                   : "memory");
      mma(c[0], p[quarter], b[0], b[1]);
      mma(c[1], p[quarter], b[2], b[3]);
    }
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      state.acc[n][h][0] = c[0][2 * h];
      state.acc[n][h][1] = c[0][2 * h + 1];
      state.acc[n + 1][h][0] = c[1][2 * h];
      state.acc[n + 1][h][1] = c[1][2 * h + 1];
    }
  }
}

/// Leaves a group's result of pair quad + 8 h for merge_groups_kernel.
template <int kHeadDim, int kHalves>
__device__ inline void store_partial(const StreamState<kHeadDim, kHalves>& group, int h,
                                     PartialGroup<kHeadDim>& partial) {
  const int pair = static_cast<int>(threadIdx.x) / 4 + 8 * h;
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int n = 0; n < kHeadDim / 8; ++n) {
    *reinterpret_cast<float2*>(&partial.acc[pair][8 * n + 2 * t]) = {group.acc[n][h][0],
                                                                     group.acc[n][h][1]};
  }
  if (t == 0) {
    partial.m[pair] = group.m[h];
    partial.l[pair] = group.l[h];
  }
}

template <int kHeadDim, int kHalves>
__device__ inline void store_result(const StreamState<kHeadDim, kHalves>& state, int h, bf16* out) {
  const int t = static_cast<int>(threadIdx.x) % 4;
  const float inverse = 1.0f / state.l[h];
#pragma unroll
  for (int n = 0; n < kHeadDim / 8; ++n) {
    *reinterpret_cast<uint32_t*>(out + 8 * n + 2 * t) =
        pack_bf16(state.acc[n][h][0] * inverse, state.acc[n][h][1] * inverse);
  }
}

/// Grid: (num_kv_heads, runs of groups of the longest sequence, num_seqs * blocks of 8 kHalves
/// pairs); 32 threads. Neighbouring CTAs read neighbouring heads of the same tokens. A sequence of
/// one group is done here; of the others the groups' results go to
/// partials[num_seqs * blocks, num_kv_heads, max_groups].
template <int kHeadDim, int kHalves, class Cache>
__global__ void __launch_bounds__(32)
    stream_queries_kernel(AttentionPass pass, Cache cache, PartialGroup<kHeadDim>* partials,
                          int max_groups, int blocks_per_seq, int groups_per_run) {
  kv::let_successors_start();
  constexpr int kPairs = 8 * kHalves;
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  auto& shared = *reinterpret_cast<StreamTile<kHeadDim>*>(shared_bytes);

  const int lane = static_cast<int>(threadIdx.x);
  const int kv_head = static_cast<int>(blockIdx.x);
  const int seq = static_cast<int>(blockIdx.z) / blocks_per_seq;
  const int first_pair = static_cast<int>(blockIdx.z) % blocks_per_seq * kPairs;
  const Pairs pairs = pass.pairs(seq, kv_head);
  const int last_pair = min(first_pair + kPairs, pairs.count()) - 1;
  const int keys_end = pairs.num_keys(last_pair);
  const int run_begin = static_cast<int>(blockIdx.y) * groups_per_run * kGroupTokens;
  const int run_end = min(run_begin + groups_per_run * kGroupTokens, keys_end);
  if (first_pair > last_pair || run_begin >= keys_end) {
    kv::wait_for_predecessors();
    return;
  }
  TileSlots slots;  // of the tile whose copies start next
  const auto find_slots = [&](int tile_begin) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      slots[i] = cache.slot(seq, min(tile_begin + lane + 32 * i, run_end - 1));
    }
  };
  const auto k_rows = cache.k_rows(kv_head, lane_element<kHeadDim>());
  const auto v_rows = cache.v_rows(kv_head, lane_element<kHeadDim>());
  const auto start_k = [&](int tile_begin) {
    start_rows<kHeadDim, StreamTile<kHeadDim>::kStrideK>(shared.k, slots, run_end - tile_begin,
                                                         k_rows);
  };
  const auto start_v = [&](int tile_begin) {
    start_rows<kHeadDim, StreamTile<kHeadDim>::kStrideV>(shared.v, slots, run_end - tile_begin,
                                                         v_rows);
  };
  find_slots(run_begin);
  // Tokens of earlier passes were written before this pass began; its own rows come later.
  const bool settled = min(run_begin + kTileTokens, run_end) <= pairs.seq_len - pairs.num_rows;
  if (!settled) kv::wait_for_predecessors();
  start_k(run_begin);
  start_v(run_begin);
  if (settled) kv::wait_for_predecessors();

  int pair[2];
  int num_keys[2];
  uint4 q[kRowPieces<kHeadDim>][2] = {};
#pragma unroll
  for (int h = 0; h < kHalves; ++h) {
    pair[h] = first_pair + lane / 4 + 8 * h;
    num_keys[h] = pair[h] <= last_pair ? pairs.num_keys(pair[h]) : 0;
    // A pair that does not exist works on the last one's row; it sees no key and is not stored.
    const bf16* row = pass.q + pairs.element(min(pair[h], last_pair));
#pragma unroll
    for (int i = 0; i < kRowPieces<kHeadDim>; ++i) {
      q[i][h] = row_piece<kHeadDim>(row, i, lane % 4);
    }
  }

  const int num_groups = (keys_end + kGroupTokens - 1) / kGroupTokens;
  partials += (static_cast<int64_t>(blockIdx.z) * gridDim.x + kv_head) * max_groups;

  StreamState<kHeadDim, kHalves> group, tile;
  for (int tile_begin = run_begin; tile_begin < run_end; tile_begin += kTileTokens) {
    const int next = tile_begin + kTileTokens;
    find_slots(next);
    int visible[2];
#pragma unroll
    for (int h = 0; h < kHalves; ++h) visible[h] = num_keys[h] - tile_begin;
    QuarterScores s[kQuarters];
    uint32_t p[kQuarters][4];
    wait_for_copies<1>();  // K is there, V may not be
    stream_scores<kHeadDim>(shared, q, s);
    __syncwarp();  // all lanes have read K
    start_k(next);
    stream_softmax<kHeadDim, kHalves>(s, visible, tile, p);
    wait_for_copies<1>();  // V is there, the next K may not be
    stream_output<kHeadDim, kHalves>(shared, p, tile);
    __syncwarp();  // all lanes have read V
    start_v(next);

    const bool begins_group = tile_begin % kGroupTokens == 0;
    const bool ends_group = next % kGroupTokens == 0 || next >= run_end;
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      if (visible[h] > 0) {  // else not merged: no trace
        if (begins_group) {
          group.copy(tile, h);
        } else {
          group.append(tile, h);
        }
      }
      if (!ends_group || num_groups == 1) continue;
      const int index = tile_begin / kGroupTokens;
      if (num_keys[h] > index * kGroupTokens) {
        store_partial<kHeadDim, kHalves>(group, h, partials[index]);
      }
    }
  }

  asm volatile("cp.async.wait_group 0;" ::: "memory");
  if (num_groups > 1) return;
#pragma unroll
  for (int h = 0; h < kHalves; ++h) {
    if (num_keys[h] > 0) {
      store_result<kHeadDim, kHalves>(group, h, pass.out + pairs.element(pair[h]));
    }
  }
}

}  // namespace kv::attention
