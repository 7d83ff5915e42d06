#pragma once

// The new heads of a pass, from the product's output to where attention looks for them: q in the
// queries, K and V in the cache. qk_norm_rope() and a write into the cache are two launches, each
// of little work when there are few rows, and a launch costs more than the work. This is one, and
// K and V take no detour. Same bits: the arithmetic is that of qk_norm_rope.cuh.

#include "kernels/attention/head_dims.cuh"
#include "kernels/attention/rows.cuh"
#include "kernels/launch.cuh"
#include "kernels/qk_norm_rope.cuh"

namespace kv::attention {

inline constexpr int kNewHeadsWarps = 4;

/// What an address is for reading: the memory in which its rows are.
struct WritableCache {
  void* k;
  void* v;
};

/// Grid: (heads of a row / 4, most rows of a sequence, num_seqs). A warp for each head: the row's
/// Q heads first, then K, then V.
template <int kHeadDim, class Address>
__global__ void new_heads_kernel(QkNormRopeArgs heads, Queries queries, Address address,
                                 WritableCache cache) {
  let_successors_start();
  const int head =
      static_cast<int>(blockIdx.x) * kNewHeadsWarps + static_cast<int>(threadIdx.x) / 32;
  const int heads_per_row = heads.num_heads + 2 * heads.num_kv_heads;
  const auto seq = static_cast<int>(blockIdx.z);
  const int64_t row = queries.first_row[seq] + static_cast<int>(blockIdx.y);
  if (head >= heads_per_row || row >= queries.first_row[seq + 1]) {
    wait_for_predecessors();
    return;
  }
  bf16* out = static_cast<bf16*>(heads.q) + (row * heads.num_heads + head) * heads.head_dim;
  if (head >= heads.num_heads) {
    const int kv_head = (head - heads.num_heads) % heads.num_kv_heads;
    const bool is_k = head < heads.num_heads + heads.num_kv_heads;
    const auto rows = address.rows(seq, kv_head);
    const int token = heads.positions[row];
    bf16* const begin = static_cast<bf16*>(is_k ? cache.k : cache.v);
    out = begin + ((is_k ? rows.k_row(token) : rows.v_row(token)) - begin);
  }
  HeadInWarp<(kHeadDim + 63) / 64> mine(heads, row, head);
  wait_for_predecessors();
  mine.compute(heads.qkv + (row * heads_per_row + head) * heads.head_dim, heads.norm_eps);
  mine.store(out);
}

/// For passes of which serves_new_heads(queries) is true. heads.k and heads.v stay as they are.
template <class Address>
void launch_new_heads(const QkNormRopeArgs& heads, const Queries& queries, const Address& address,
                      const WritableCache& cache, const Stream& stream) {
  const int heads_per_row = heads.num_heads + 2 * heads.num_kv_heads;
  const dim3 grid(static_cast<unsigned>((heads_per_row + kNewHeadsWarps - 1) / kNewHeadsWarps),
                  static_cast<unsigned>(queries.max_rows_per_seq),
                  static_cast<unsigned>(queries.num_seqs));
  with_head_dim(heads.head_dim, [&](auto head_dim) {
    launch_dependent(new_heads_kernel<head_dim.value, Address>,
                     {grid, dim3(32 * kNewHeadsWarps), 0, "launching new_heads"}, stream, heads,
                     queries, address, cache);
  });
}

}  // namespace kv::attention
