#pragma once

// Attention for many queries of a sequence (a prefill): a CTA takes 128 pairs and walks over the
// tiles of keys they see, K and V streaming through shared memory, two tiles deep.
//
// Floor for n tokens of one sequence: 2 n^2 num_heads head_dim operations (the causal half of two
// products); bytes hardly matter. A pair's state is in registers, three levels of it: this tile,
// its group, the result. There is no room for Q as well, so its fragments come back from the L1
// cache.

#include "kernels/launch.cuh"
#include "lessons/01_no_cache/attention_tile.cuh"

namespace lesson01 {

inline constexpr int kManyWarps = 8;
inline constexpr int kManyThreads = 32 * kManyWarps;
inline constexpr int kManyPairs = kManyWarps * kMmaPairs;  // pairs of one CTA

/// One stage of shared memory: a tile of K and one of V. Rows are padded so that the accesses of a
/// warp spread over all banks: K is read in 16-byte pieces, 4 lanes a row; V by ldmatrix, 8 rows.
template <int kHeadDim>
struct Stage {
  static constexpr int kPieces = kHeadDim / 8;  // 16-byte pieces of a row
  static constexpr int kKStride = 8 * (kPieces + (12 - kPieces % 8) % 8);
  static constexpr int kVStride = 8 * (kPieces | 1);
  alignas(16) bf16 k[kTileTokens * kKStride];
  alignas(16) bf16 v[kTileTokens * kVStride];
};

/// What one warp knows about its 16 pairs after some keys. Lane: [n][2 h + c] is pair quad + 8 h
/// and element 8 n + 2 t + c; m and l of pair quad + 8 h.
template <int kHeadDim>
struct PairState {
  float acc[kHeadDim / 8][4];
  float m[2];
  float l[2];

  /// Appends `b` for the pairs quad + 8 h; as a copy if it is the first part.
  __device__ void append(const PairState& b, int h, bool first) {
    if (first) {
      m[h] = b.m[h];
      l[h] = b.l[h];
#pragma unroll
      for (int n = 0; n < kHeadDim / 8; ++n) {
        acc[n][2 * h] = b.acc[n][2 * h];
        acc[n][2 * h + 1] = b.acc[n][2 * h + 1];
      }
      return;
    }
    const Merge merge(m[h], b.m[h]);
    m[h] = merge.m;
    l[h] = merge(l[h], b.l[h]);
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      acc[n][2 * h] = merge(acc[n][2 * h], b.acc[n][2 * h]);
      acc[n][2 * h + 1] = merge(acc[n][2 * h + 1], b.acc[n][2 * h + 1]);
    }
  }
};

__device__ inline void copy_16_bytes_async(void* shared_dst, const void* src, bool in_range) {
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
  for (int i = static_cast<int>(threadIdx.x); i < kTileTokens * kPieces; i += kManyThreads) {
    const int row = i / kPieces;
    const int piece = i % kPieces;
    const bool in_range = tile_begin + row < num_tokens;
    const int token = in_range ? tile_begin + row : 0;
    copy_16_bytes_async(&stage.k[row * Stage<kHeadDim>::kKStride + 8 * piece],
                        rows.k_row(token) + 8 * piece, in_range);
    copy_16_bytes_async(&stage.v[row * Stage<kHeadDim>::kVStride + 8 * piece],
                        rows.v_row(token) + 8 * piece, in_range);
  }
}

/// Scores of the warp's 16 pairs against the tile's 64 keys.
template <int kHeadDim>
__device__ inline void tile_scores(const Stage<kHeadDim>& stage, const bf16* const (&q_rows)[2],
                                   QuarterScores (&s)[kQuarters]) {
  const int quad = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (auto& quarter : s) {
#pragma unroll
    for (int i = 0; i < 8; ++i) quarter[i / 4][i % 4] = 0.0f;
  }
  const bf16* k_rows = &stage.k[quad * Stage<kHeadDim>::kKStride];
#pragma unroll
  for (int i = 0; i < kRowPieces<kHeadDim>; ++i) {
    const uint4 q[2] = {row_piece<kHeadDim>(q_rows[0], i, t), row_piece<kHeadDim>(q_rows[1], i, t)};
#pragma unroll
    for (int n = 0; n < kTileTokens / 8; ++n) {
      const uint4 k = row_piece<kHeadDim>(k_rows + 8 * n * Stage<kHeadDim>::kKStride, i, t);
      mma_piece<kHeadDim>(s[n / 2][n % 2], q, k, i);
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
  const bf16* rows = &stage.v[lane % 16 * Stage<kHeadDim>::kVStride + lane / 16 * 8];
#pragma unroll
  for (int quarter = 0; quarter < kQuarters; ++quarter) {
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; n += 2) {
      const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(
          rows + quarter * kQuarterTokens * Stage<kHeadDim>::kVStride + 8 * n));
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
__device__ inline void attend_tile(const Stage<kHeadDim>& stage, const bf16* const (&q_rows)[2],
                                   const int (&visible)[2], PairState<kHeadDim>& tile) {
  const int t = static_cast<int>(threadIdx.x) % 4;
  const float scale = score_scale<kHeadDim>();
  QuarterScores s[kQuarters];
  tile_scores<kHeadDim>(stage, q_rows, s);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float largest = -INFINITY;
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
      largest = fmaxf(largest, quarter_max(s[i], h, visible[h] - i * kQuarterTokens, t));
    }
    tile.m[h] = largest * scale;
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

/// Grid: (blocks of 128 pairs of the longest query range, num_kv_heads, num_seqs); long blocks
/// first. Warp w of the CTA has pairs 16 w .. 16 w + 15 of the block; lanes as in PairState.
template <int kHeadDim, class Cache>
__global__ void __launch_bounds__(kManyThreads, 1)
    many_queries_kernel(AttentionPass pass, Cache cache) {
  kv::let_successors_start();
  kv::wait_for_predecessors();
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  auto* stages = reinterpret_cast<Stage<kHeadDim>*>(shared_bytes);

  const int seq = static_cast<int>(blockIdx.z);
  const int kv_head = static_cast<int>(blockIdx.y);
  const int first_pair = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kManyPairs;
  const Pairs pairs = pass.pairs(seq, kv_head);
  if (first_pair >= pairs.count()) return;
  const auto rows = cache.rows(seq, kv_head);

  const int last_pair = min(first_pair + kManyPairs, pairs.count()) - 1;
  const int keys_end = pairs.num_keys(last_pair);
  const int num_tiles = (keys_end + kTileTokens - 1) / kTileTokens;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int quad = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int pair[2] = {first_pair + kMmaPairs * warp + quad,
                       first_pair + kMmaPairs * warp + quad + 8};
  const int num_keys[2] = {pairs.num_keys(pair[0]), pairs.num_keys(pair[1])};
  // A pair that does not exist works on the last one's row; it sees no key and is not stored.
  const bf16* const q_rows[2] = {pass.q + pairs.element(min(pair[0], last_pair)),
                                 pass.q + pairs.element(min(pair[1], last_pair))};

  PairState<kHeadDim> result, group, tile;
  start_tile(stages[0], rows, 0, keys_end);
  asm volatile("cp.async.commit_group;" ::: "memory");
  for (int i = 0; i < num_tiles; ++i) {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();  // tile i has come, and everyone is done with tile i - 1
    if (i + 1 < num_tiles) {
      start_tile(stages[(i + 1) % 2], rows, (i + 1) * kTileTokens, keys_end);
      asm volatile("cp.async.commit_group;" ::: "memory");
    }
    const int visible[2] = {num_keys[0] - i * kTileTokens, num_keys[1] - i * kTileTokens};
    if (!__any_sync(0xFFFFFFFFu, visible[0] > 0 || visible[1] > 0)) continue;
    attend_tile<kHeadDim>(stages[i % 2], q_rows, visible, tile);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (visible[h] <= 0) continue;  // not merged: no trace
      group.append(tile, h, i % kGroupTiles == 0);
      const bool group_ends = i % kGroupTiles == kGroupTiles - 1 || visible[h] <= kTileTokens;
      if (group_ends) result.append(group, h, i < kGroupTiles);
    }
  }

#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (num_keys[h] == 0) continue;
    const float inverse = 1.0f / result.l[h];
    bf16* out = pass.out + pairs.element(pair[h]) + 2 * t;
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      *reinterpret_cast<uint32_t*>(out + 8 * n) =
          pack_bf16(result.acc[n][2 * h] * inverse, result.acc[n][2 * h + 1] * inverse);
    }
  }
}

/// Queues the kernel for passes of up to max_rows_per_seq queries per sequence.
template <int kHeadDim, class Cache>
void launch_many_queries(const AttentionPass& pass, const Cache& cache, int num_seqs,
                         int max_rows_per_seq, const kv::Stream& stream) {
  constexpr size_t kSharedBytes = 2 * sizeof(Stage<kHeadDim>);
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

}  // namespace lesson01
