#pragma once

// Where a token's row of K and V is: the only difference between the lessons. The kernels take an
// *address* as a template parameter. It is any struct with
//
//   __device__ RowsBy<...> rows(int seq, int kv_head) const;
//   LayerRows layer() const;
//
// and a lesson names its own in fast.cu. For codes in FP8 it is Fp8Blocks (fp8/fp8_rows.cuh).

#include <cuda_bf16.h>

#include <climits>
#include <cstdint>
#include <utility>

#include "kernels/attention/pairs.cuh"

namespace kv::attention {

/// K and V of one sequence and KV head. Token t is in row row_of(t): its [head_dim] elements begin
/// at k + row_of(t) * stride and at v + row_of(t) * stride.
template <class RowOf>
struct RowsBy {
  static constexpr bool kHasCodes = false;
  const bf16* k;  // this head's part of row 0
  const bf16* v;
  int64_t stride;  // elements from one row to the next
  RowOf row_of;    // int row_of(int token); may look it up in memory

  __device__ const bf16* k_row(int token) const { return k + row_of(token) * stride; }
  __device__ const bf16* v_row(int token) const { return v + row_of(token) * stride; }
};

/// Whether an address leads to codes in FP8.
template <class Address>
inline constexpr bool kHasCodes = decltype(std::declval<Address>().rows(0, 0))::kHasCodes;

/// A layer as a whole, for kernels that copy many rows at once. A row has all KV heads of a token.
struct LayerRows {
  const void* k;
  const void* v;
  int64_t num_rows;
  int64_t row_bytes;
  int contiguous_tokens;  // of a sequence, in neighbouring rows: the block size of a paged cache
};

/// Rows of a sequence whose tokens lie one after the other.
struct RowAfterRow {
  int first;  // token 0's
  __device__ int operator()(int token) const { return first + token; }
};

/// An address: k and v are [num_rows, num_kv_heads, head_dim], and the tokens of a sequence lie one
/// after the other from row begin[seq] on.
template <class Index>
struct Contiguous {
  const void* k;
  const void* v;
  const Index* begin;  // [num_seqs]
  int64_t num_rows;    // at most 2^31
  int num_kv_heads;
  int head_dim;

  __device__ RowsBy<RowAfterRow> rows(int seq, int kv_head) const {
    const int64_t head = static_cast<int64_t>(kv_head) * head_dim;
    return {.k = static_cast<const bf16*>(k) + head,
            .v = static_cast<const bf16*>(v) + head,
            .stride = static_cast<int64_t>(num_kv_heads) * head_dim,
            .row_of = {static_cast<int>(begin[seq])}};
  }
  LayerRows layer() const {
    return {k, v, num_rows, int64_t{num_kv_heads} * head_dim * int64_t{sizeof(bf16)}, INT_MAX};
  }
};

}  // namespace kv::attention
