#pragma once

// Shared by the steps: the row of a token, loads of eight elements, and partial results of
// partitions.

#include <cuda_bf16.h>

#include <stdexcept>

#include "kernels/launch.cuh"
#include "kernels/warp.cuh"
#include "lessons/03_paged_blocks/kv_blocks.h"
#include "lessons/04_paged_attention/road/road.h"

namespace lesson04::road {

using bf16 = __nv_bfloat16;

inline constexpr int kHeadDim = 128;
inline constexpr int kMaxGroup = 8;  // query heads of one KV head
inline constexpr int kWarps = 4;     // in a CTA
inline constexpr int kThreads = 32 * kWarps;
/// A row of K or V is 256 bytes. 16 lanes, a team, read it at once, 16 bytes each.
inline constexpr int kTeamLanes = kHeadDim / 8;
inline constexpr int kTeams = kThreads / kTeamLanes;
/// Rows that a team loads before it uses the first of them.
inline constexpr int kBatch = 4;

/// Throws std::invalid_argument for a pass that the steps do not support.
inline void check_decode(const PagedAttentionArgs& args) {
  check_block_size(args.cache.block_size);
  if (args.max_rows_per_seq > 1 || args.cache.head_dim != kHeadDim ||
      args.num_heads > kMaxGroup * args.cache.num_kv_heads) {
    throw std::invalid_argument(
        "the road: wanted one query row for each sequence, head_dim 128, and at most 8 query heads "
        "for each KV head");
  }
}

/// The rows of one sequence and KV head, by token.
struct Rows {
  const PagedAttentionArgs& args;
  const int32_t* table;  // the sequence's
  int kv_head;
  int shift = 0;  // block_size is 2^shift

  __device__ Rows(const PagedAttentionArgs& pass, int seq, int of_kv_head)
      : args(pass),
        table(pass.block_tables + int64_t{seq} * pass.max_blocks_per_seq),
        kv_head(of_kv_head) {
    while (1 << shift < pass.cache.block_size) ++shift;
  }

  __device__ int offset(int token) const { return token & (args.cache.block_size - 1); }
  __device__ const bf16* key(int token) const {
    return lesson03::k_row<bf16>(args.cache, table[token >> shift], offset(token)) +
           kv_head * kHeadDim;
  }
  __device__ const bf16* value(int token) const {
    return lesson03::v_row<bf16>(args.cache, table[token >> shift], offset(token)) +
           kv_head * kHeadDim;
  }
};

/// The first element of a query head in q and out, [num_seqs, num_heads, kHeadDim].
__device__ inline int64_t head_element(const PagedAttentionArgs& args, int seq, int head) {
  return (int64_t{args.first_row[seq]} * args.num_heads + head) * kHeadDim;
}

/// A lane's part of a row: eight elements, one load of 16 bytes.
__device__ inline uint4 load_piece(const bf16* row, int lane) {
  return reinterpret_cast<const uint4*>(row)[lane];
}
__device__ inline void floats_of(const uint4& piece, float (&x)[8]) {
  const uint32_t words[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    x[2 * i] = __uint_as_float(words[i] << 16);
    x[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000u);
  }
}

/// q . k of a row, in every lane of the team; each lane multiplies eight elements.
__device__ inline float team_dot(const float (&q)[8], const float (&k)[8]) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum = fmaf(q[i], k[i], sum);
#pragma unroll
  for (int mask = kTeamLanes / 2; mask > 0; mask /= 2) {
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, mask);
  }
  return sum;
}

/// Deals the tokens 0 .. len - 1 to the CTA's teams: a team takes token `team`, team + 8, ... Calls
/// use(token, x) with this lane's part x of the row at row_of(token). All threads take part in all
/// calls, so the last ones may be for tokens from len on, with the row of token len - 1.
template <class RowOf, class Use>
__device__ inline void for_each_row(int len, const RowOf& row_of, const Use& use) {
  const int team = static_cast<int>(threadIdx.x) / kTeamLanes;
  const int lane = static_cast<int>(threadIdx.x) % kTeamLanes;
  for (int round = 0; round < len; round += kTeams * kBatch) {
    // The compiler moves no load past a __syncwarp(). So all addresses come first, then all loads,
    // then the first use.
    const bf16* row[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) row[i] = row_of(min(round + i * kTeams + team, len - 1));
    __syncwarp();
    uint4 piece[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) piece[i] = load_piece(row[i], lane);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      float x[8];
      floats_of(piece[i], x);
      use(round + i * kTeams + team, x);
    }
  }
}

__device__ inline float score_scale() { return rsqrtf(static_cast<float>(kHeadDim)); }

/// The largest of the CTA's x, in every thread.
__device__ inline float cta_max(float x) {
  __shared__ float of_thread[kThreads];
  of_thread[threadIdx.x] = x;
  __syncthreads();
  for (int i = 0; i < kThreads; ++i) x = fmaxf(x, of_thread[i]);
  return x;
}

/// The sum of the CTA's x, in every thread.
__device__ inline float cta_sum(float x) {
  __shared__ float of_thread[kThreads];
  of_thread[threadIdx.x] = x;
  __syncthreads();
  float sum = 0.0f;
  for (int i = 0; i < kThreads; ++i) sum += of_thread[i];
  return sum;
}

/// A CTA's partial result for one query head and one partition of its keys.
struct Partial {
  float acc[kHeadDim];
  float m, l;
};

/// The cut of the keys: partitions of `tokens` tokens, at most `count` for a sequence.
struct Partitioning {
  int tokens, count;
  Partial* partials;  // [num_seqs, num_heads, count]

  __device__ Partial& partial(const PagedAttentionArgs& args, int seq, int head, int part) const {
    return partials[(int64_t{seq} * args.num_heads + head) * count + part];
  }
};

/// Cuts the keys into the fewest partitions that fill the GPU. A partition of a sequence is `ctas`
/// CTAs.
Partitioning cut_keys(const PagedAttentionArgs& args, int ctas);
inline constexpr int kMaxPartition = 1024;

/// Writes the merged partial results to out: step 3's second kernel.
void merge_partitions(const PagedAttentionArgs& args, const Partitioning& parts,
                      const kv::Stream& stream);

}  // namespace lesson04::road
