#pragma once

// Pairs (query, head): the rows of the tensor cores' tall operand.

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/attention/contract.h"
#include "kernels/attention/queries.h"

namespace kv::attention {

using bf16 = __nv_bfloat16;

/// The pairs of one sequence and KV head. Pair p is query p / heads_per_kv, and there head
/// p % heads_per_kv of those that share the KV head. The queries are the sequence's last tokens.
struct Pairs {
  int64_t first_element;  // of pair 0 in q and out
  int64_t row_elements;   // num_heads * head_dim
  int heads_per_kv;
  int head_dim;
  int num_rows;  // queries
  int seq_len;   // tokens, the queries' included
  int window;

  __device__ int count() const { return num_rows * heads_per_kv; }
  /// Index of the pair's head in q and out, both [rows, num_heads, head_dim].
  __device__ int64_t element(int pair) const {
    return first_element + pair / heads_per_kv * row_elements +
           static_cast<int64_t>(pair % heads_per_kv) * head_dim;
  }
  /// One past the last key that the pair sees, its own token; 0 if the pair does not exist.
  __device__ int num_keys(int pair) const {
    return pair < count() ? seq_len - num_rows + pair / heads_per_kv + 1 : 0;
  }
  /// The first key that the pair sees; above 0 only in a layer with a window.
  __device__ int first_key(int pair) const {
    return window > 0 ? kv::attention::first_key(num_keys(pair) - 1, window) : 0;
  }
};

/// `windowed` is false in kernels and variants that serve only layers without a window.
__device__ inline Pairs pairs_of(const Queries& queries, int seq, int kv_head,
                                 bool windowed = false) {
  const int first = queries.first_row[seq];
  const int num_rows = queries.first_row[seq + 1] - first;
  const int heads_per_kv = queries.num_heads / queries.num_kv_heads;
  const int64_t row_elements = static_cast<int64_t>(queries.num_heads) * queries.head_dim;
  return {.first_element = first * row_elements +
                           static_cast<int64_t>(kv_head) * heads_per_kv * queries.head_dim,
          .row_elements = row_elements,
          .heads_per_kv = heads_per_kv,
          .head_dim = queries.head_dim,
          .num_rows = num_rows,
          .seq_len = queries.seq_len != nullptr ? queries.seq_len[seq] : num_rows,
          .window = windowed ? queries.window : 0};
}

/// Number of tokens whose K and V were in memory before this pass began. Only these may be read
/// before wait_for_predecessors().
__device__ inline int num_earlier_tokens(const Pairs& pairs) {
  return pairs.seq_len - pairs.num_rows;
}

__device__ inline const bf16* q_row(const Queries& queries, const Pairs& pairs, int pair) {
  return static_cast<const bf16*>(queries.q) + pairs.element(pair);
}
__device__ inline bf16* out_row(const Queries& queries, const Pairs& pairs, int pair) {
  return static_cast<bf16*>(queries.out) + pairs.element(pair);
}

}  // namespace kv::attention
