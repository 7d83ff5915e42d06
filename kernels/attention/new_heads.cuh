#pragma once

// Normalizes and rotates the heads of a pass and writes q to the queries, K and V to the cache, in
// one launch. qk_norm_rope() and a write into the cache would be two launches. With few rows a
// launch costs more than its work; with many rows K and V would pass through memory once more. The
// arithmetic is that of qk_norm_rope.cuh, and so are the bits.

#include "kernels/attention/head_dims.cuh"
#include "kernels/attention/rows.cuh"
#include "kernels/launch.cuh"
#include "kernels/qk_norm_rope.cuh"

namespace kv::attention {

inline constexpr int kNewHeadsWarps = 4;

/// The memory in which an address's rows are, for writing.
struct WritableCache {
  void* k;
  void* v;
};

/// Grid: (warps of a row / 4, most rows of a sequence, num_seqs). A warp takes kHeads heads: the
/// row's Q heads first, then K, then V.
template <int kHeadDim, int kHeads, class Address>
__global__ void __launch_bounds__(32 * kNewHeadsWarps, kHeadCtasPerSm<kHeads>)
    new_heads_kernel(QkNormRopeArgs heads, Queries queries, Address address, WritableCache cache) {
  let_successors_start();
  const int warp =
      static_cast<int>(blockIdx.x) * kNewHeadsWarps + static_cast<int>(threadIdx.x) / 32;
  const int first_head = warp * kHeads;
  const auto seq = static_cast<int>(blockIdx.z);
  const int64_t row = queries.first_row[seq] + static_cast<int>(blockIdx.y);
  if (first_head >= heads.num_heads + 2 * heads.num_kv_heads || row >= queries.first_row[seq + 1]) {
    wait_for_predecessors();
    return;
  }
  make_heads<(kHeadDim + 63) / 64, kHeads>(heads, row, first_head, [&](int head) {
    if (head < heads.num_heads) {
      return static_cast<bf16*>(heads.q) + (row * heads.num_heads + head) * heads.head_dim;
    }
    const int kv_head = (head - heads.num_heads) % heads.num_kv_heads;
    const bool is_k = head < heads.num_heads + heads.num_kv_heads;
    const auto rows = address.rows(seq, kv_head);
    const int token = heads.positions[row];
    bf16* const begin = static_cast<bf16*>(is_k ? cache.k : cache.v);
    return begin + ((is_k ? rows.k_row(token) : rows.v_row(token)) - begin);
  });
}

/// For passes of which serves_new_heads(queries) is true. heads.k and heads.v stay as they are.
template <class Address>
void launch_new_heads(const QkNormRopeArgs& heads, const Queries& queries, const Address& address,
                      const WritableCache& cache, const Stream& stream) {
  with_head_dim(heads.head_dim, [&](auto head_dim) {
    with_heads_of_warp(queries.num_rows, [&]<int kHeads>() {
      constexpr int kHeadsPerCta = kHeads * kNewHeadsWarps;
      const int heads_per_row = heads.num_heads + 2 * heads.num_kv_heads;
      const dim3 grid(static_cast<unsigned>((heads_per_row + kHeadsPerCta - 1) / kHeadsPerCta),
                      static_cast<unsigned>(queries.max_rows_per_seq),
                      static_cast<unsigned>(queries.num_seqs));
      launch_dependent(new_heads_kernel<head_dim.value, kHeads, Address>,
                       {grid, dim3(32 * kNewHeadsWarps), 0, "launching new_heads"}, stream, heads,
                       queries, address, cache);
    });
  });
}

}  // namespace kv::attention
