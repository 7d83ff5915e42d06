#pragma once

// Attention for many queries of a sequence (a prefill): a CTA takes 64 pairs and walks over the
// tiles of keys they see, K and V streaming through shared memory, two tiles deep.
//
// Floor for n tokens of one sequence: 2 n^2 num_heads head_dim operations (the causal half of two
// products); bytes hardly matter. What a pair knows has three levels. Its tile and its group are in
// registers; the result, touched once in four tiles, is in shared memory, each lane's own part.
//
// Measured on an H200 (16 heads, 8 KV heads of 128, one sequence):
//
//   version                                             2,048 tokens      8,192 tokens
//   128 pairs, all three levels in registers, Q from L1   212 us             2.0 ms
//   64 pairs, Q in registers, the result shared           134 us             1.36 ms, 202 TFLOP/s
//
#include "kernels/attention/tensor_tile.cuh"
#include "kernels/launch.cuh"

namespace kv::attention {

inline constexpr int kManyWarps = 4;
inline constexpr int kManyThreads = 32 * kManyWarps;
inline constexpr int kManyPairs = kManyWarps * kMmaPairs;  // pairs of one CTA

/// A tile of K and one of V in shared memory: rows of 16-byte pieces. Pieces change places within
/// their row (exclusive or), so that both ways of reading spread over all banks: K in four pieces
/// of two rows at a time, V by ldmatrix in one piece of eight rows.
template <int kHeadDim>
struct Stage {
  static constexpr int kPieces = kHeadDim / 8;
  static constexpr int kStride = (kPieces + 3) / 4 * 4;  // pieces from a row to the next

  uint4 k[kTileTokens * kStride];
  uint4 v[kTileTokens * kStride];

  /// Where a piece lies; the same for row + 8, 8 kStride further on. Rows that are 4 (mod 8) pieces
  /// long alternate between the banks' halves by themselves.
  __device__ static int index(int row, int piece) {
    const int halves = kStride % 8 == 0 ? (row & 1) << 2 : 0;
    return row * kStride + (piece ^ (halves | (row >> 1 & 3)));
  }
};

/// Everything a CTA keeps in shared memory: 96 KiB for head_dim 128, what every GPU from sm_80 on
/// can give (99 KiB), and twice that on those with room for two CTAs.
template <int kHeadDim>
struct ManyShared {
  Stage<kHeadDim> stages[2];
  float2 result[kHeadDim / 8][2][kManyThreads];  // [n][h]: elements 8 n + 2 t, + 1 of quad + 8 h
};

/// What one warp knows about its 16 pairs after some keys. Lane: [n][2 h + c] is pair quad + 8 h
/// and element 8 n + 2 t + c; m and l of pair quad + 8 h.
template <int kHeadDim>
struct PairState {
  float acc[kHeadDim / 8][4];
  float m[2];
  float l[2];

  /// Appends the later keys of `b` for the pairs quad + 8 h.
  __device__ void append(const PairState& b, int h) {
    const Merge merge(m[h], b.m[h]);
    m[h] = merge.m;
    l[h] = merge(l[h], b.l[h]);
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      acc[n][2 * h] = merge(acc[n][2 * h], b.acc[n][2 * h]);
      acc[n][2 * h + 1] = merge(acc[n][2 * h + 1], b.acc[n][2 * h + 1]);
    }
  }
  __device__ void copy(const PairState& b, int h) {
    m[h] = b.m[h];
    l[h] = b.l[h];
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      acc[n][2 * h] = b.acc[n][2 * h];
      acc[n][2 * h + 1] = b.acc[n][2 * h + 1];
    }
  }
};

/// The result so far: m and l in registers, acc in this thread's column of shared memory.
template <int kHeadDim>
struct ResultState {
  float m[2];
  float l[2];
  float2 (&acc)[kHeadDim / 8][2][kManyThreads];

  /// Appends a group, or starts with it; the sum goes to `group` (store = false) or stays here.
  __device__ void append(PairState<kHeadDim>& group, int h, bool first, bool store) {
    const Merge merge(first ? group.m[h] : m[h], group.m[h]);
    l[h] = first ? group.l[h] : merge(l[h], group.l[h]);
    m[h] = merge.m;
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      float2& mine = acc[n][h][threadIdx.x];
      float2 sum = {group.acc[n][2 * h], group.acc[n][2 * h + 1]};
      if (!first) sum = {merge(mine.x, sum.x), merge(mine.y, sum.y)};
      if (store) {
        mine = sum;
      } else {
        group.acc[n][2 * h] = sum.x;
        group.acc[n][2 * h + 1] = sum.y;
      }
    }
  }
};

__device__ inline void copy_16_bytes_async(uint4* shared_dst, const void* src, bool in_range) {
  const auto dst = static_cast<uint32_t>(__cvta_generic_to_shared(shared_dst));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src),
               "r"(in_range ? 16 : 0)
               : "memory");
}

/// Starts the copy of one tile. Rows of tokens from `num_tokens` on become zeros and are not read.
template <int kHeadDim, class Rows>
__device__ inline void start_tile(Stage<kHeadDim>& stage, const Rows& rows, int tile_begin,
                                  int num_tokens) {
  constexpr int kPieces = Stage<kHeadDim>::kPieces;
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x); i < kTileTokens * kPieces; i += kManyThreads) {
    const int row = i / kPieces;
    const int piece = i % kPieces;
    const bool in_range = tile_begin + row < num_tokens;
    const int token = in_range ? tile_begin + row : 0;
    const int to = Stage<kHeadDim>::index(row, piece);
    copy_16_bytes_async(&stage.k[to], rows.k_row(token) + 8 * piece, in_range);
    copy_16_bytes_async(&stage.v[to], rows.v_row(token) + 8 * piece, in_range);
  }
}

/// Piece i of key 8 n + quad, as row_piece() has it.
template <int kHeadDim>
__device__ inline uint4 shared_piece(const Stage<kHeadDim>& stage, int n, int quad, int i, int t) {
  const bool half = is_half<kHeadDim>(i);
  const uint4* piece = &stage.k[Stage<kHeadDim>::index(quad, 4 * i + (half ? t / 2 : t))] +
                       8 * n * Stage<kHeadDim>::kStride;
  if (!half) return *piece;
  const uint2 x = reinterpret_cast<const uint2*>(piece)[t % 2];
  return {x.x, x.y, 0, 0};
}

/// The rows of pairs quad and quad + 8, all pieces.
template <int kHeadDim>
using QueryRows = uint4[kRowPieces<kHeadDim>][2];

/// Scores of the warp's 16 pairs against the tile's 64 keys.
template <int kHeadDim>
__device__ inline void tile_scores(const Stage<kHeadDim>& stage, const QueryRows<kHeadDim>& q,
                                   QuarterScores (&s)[kQuarters]) {
  const int quad = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (auto& quarter : s) {
#pragma unroll
    for (int i = 0; i < 8; ++i) quarter[i / 4][i % 4] = 0.0f;
  }
#pragma unroll
  for (int i = 0; i < kRowPieces<kHeadDim>; ++i) {
#pragma unroll
    for (int n = 0; n < kTileTokens / 8; ++n) {
      const uint4 k = shared_piece<kHeadDim>(stage, n, quad, i, t);
      mma_piece<kHeadDim>(s[n / 2][n % 2], q[i], k, i);
    }
  }
}

/// acc = P V over the tile's keys, from zero.
template <int kHeadDim>
__device__ inline void tile_output(const Stage<kHeadDim>& stage, const uint32_t (&p)[kQuarters][4],
                                   float (&acc)[kHeadDim / 8][4]) {
#pragma unroll
  for (auto& column : acc) column[0] = column[1] = column[2] = column[3] = 0.0f;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // ldmatrix: lanes 0-7 give the rows of matrix 0, 8-15 of 1, ...: keys 0-7 and 8-15 of eight
  // columns, then of the next eight. Transposed, they are b0 and b1 of two products.
#pragma unroll
  for (int quarter = 0; quarter < kQuarters; ++quarter) {
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; n += 2) {
      const uint4* piece = &stage.v[Stage<kHeadDim>::index(lane % 16, n + lane / 16)] +
                           quarter * kQuarterTokens * Stage<kHeadDim>::kStride;
      const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(piece));
      uint32_t b[4];
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                   : "r"(address)
                   : "memory");
      mma(acc[n], p[quarter], b[0], b[1]);
      mma(acc[n + 1], p[quarter], b[2], b[3]);
    }
  }
}

/// One tile from scratch. visible[h]: how many of its keys pair quad + 8 h sees.
template <int kHeadDim>
__device__ inline void attend_tile_by_warp(const Stage<kHeadDim>& stage,
                                           const QueryRows<kHeadDim>& q, const int (&visible)[2],
                                           PairState<kHeadDim>& tile) {
  const int t = static_cast<int>(threadIdx.x) % 4;
  const float scale = score_scale<kHeadDim>();
  QuarterScores s[kQuarters];
  tile_scores<kHeadDim>(stage, q, s);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
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
  uint32_t p[kQuarters][4];
#pragma unroll
  for (int i = 0; i < kQuarters; ++i) quarter_operand(s[i], p[i]);
  tile_output<kHeadDim>(stage, p, tile.acc);
}

/// Grid: (blocks of 64 pairs of the longest query range, num_kv_heads, num_seqs); long blocks
/// first. Warp w of the CTA has pairs 16 w .. 16 w + 15 of the block; lanes as in PairState.
template <int kHeadDim, class Cache>
__global__ void __launch_bounds__(kManyThreads, 2)
    many_queries_kernel(AttentionPass pass, Cache cache) {
  kv::let_successors_start();
  kv::wait_for_predecessors();
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  auto& shared = *reinterpret_cast<ManyShared<kHeadDim>*>(shared_bytes);

  const int seq = static_cast<int>(blockIdx.z);
  const int kv_head = static_cast<int>(blockIdx.y);
  const int first_pair = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kManyPairs;
  const Pairs pairs = pass.pairs(seq, kv_head);
  if (first_pair >= pairs.count()) return;
  const auto rows = cache.rows(seq, kv_head);

  const int last_pair = min(first_pair + kManyPairs, pairs.count()) - 1;
  const int keys_end = pairs.num_keys(last_pair);
  const int num_tiles = (keys_end + kTileTokens - 1) / kTileTokens;
  start_tile(shared.stages[0], rows, 0, keys_end);
  asm volatile("cp.async.commit_group;" ::: "memory");

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int quad = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int pair[2] = {first_pair + kMmaPairs * warp + quad,
                       first_pair + kMmaPairs * warp + quad + 8};
  const int num_keys[2] = {pairs.num_keys(pair[0]), pairs.num_keys(pair[1])};
  uint4 q[kRowPieces<kHeadDim>][2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    // A pair that does not exist works on the last one's row; it sees no key and is not stored.
    const bf16* row = pass.q + pairs.element(min(pair[h], last_pair));
#pragma unroll
    for (int i = 0; i < kRowPieces<kHeadDim>; ++i) q[i][h] = row_piece<kHeadDim>(row, i, t);
  }

  ResultState<kHeadDim> result{{}, {}, shared.result};
  PairState<kHeadDim> group, tile;
  for (int i = 0; i < num_tiles; ++i) {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();  // tile i has come, and everyone is done with tile i - 1
    if (i + 1 < num_tiles) {
      start_tile(shared.stages[(i + 1) % 2], rows, (i + 1) * kTileTokens, keys_end);
      asm volatile("cp.async.commit_group;" ::: "memory");
    }
    const int visible[2] = {num_keys[0] - i * kTileTokens, num_keys[1] - i * kTileTokens};
    if (!__any_sync(0xFFFFFFFFu, visible[0] > 0 || visible[1] > 0)) continue;
    attend_tile_by_warp<kHeadDim>(shared.stages[i % 2], q, visible, tile);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (visible[h] <= 0) continue;  // not merged: no trace
      if (i % kGroupTiles != 0) {
        group.append(tile, h);
      } else {  // a new group: the one before is complete
        if (i > 0) result.append(group, h, i == kGroupTiles, true);
        group.copy(tile, h);
      }
    }
  }

#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (num_keys[h] == 0) continue;
    result.append(group, h, num_keys[h] <= kGroupTokens, false);
    const float inverse = 1.0f / result.l[h];
    bf16* out = pass.out + pairs.element(pair[h]) + 2 * t;
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      *reinterpret_cast<uint32_t*>(out + 8 * n) =
          pack_bf16(group.acc[n][2 * h] * inverse, group.acc[n][2 * h + 1] * inverse);
    }
  }
}

/// Queues the kernel for passes of up to max_rows_per_seq queries per sequence.
template <int kHeadDim, class Cache>
void launch_many_queries(const AttentionPass& pass, const Cache& cache, int num_seqs,
                         int max_rows_per_seq, const kv::Stream& stream) {
  constexpr size_t kSharedBytes = sizeof(ManyShared<kHeadDim>);
  static_assert(kSharedBytes <= 99 * 1024);
  const auto kernel = many_queries_kernel<kHeadDim, Cache>;
  static const bool ready = [&] {  // once: kernels get more than 48 KiB only when asked
    kv::cuda_backend::check(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(kSharedBytes)),
        "asking for the attention kernel's shared memory");
    return true;
  }();
  static_cast<void>(ready);
  const int64_t max_pairs =
      static_cast<int64_t>(max_rows_per_seq) * (pass.num_heads / pass.num_kv_heads);
  const kv::Launch launch{
      dim3(static_cast<unsigned>((max_pairs + kManyPairs - 1) / kManyPairs),
           static_cast<unsigned>(pass.num_kv_heads), static_cast<unsigned>(num_seqs)),
      dim3(kManyThreads), kSharedBytes, "launching attention"};
  kv::launch_dependent(kernel, launch, stream, pass, cache);
}

}  // namespace kv::attention
