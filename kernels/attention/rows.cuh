#pragma once

// Where a token's row of K and V is: the only difference between the lessons. The kernels take an
// *address* as a template parameter. It is any struct with
//
//   __device__ RowsBy<...> rows(int seq, int kv_head) const;
//
// and a lesson names its own in fast.cu.

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/attention/pairs.cuh"

namespace kv::attention {

/// K and V of one sequence and KV head. Token t is in row row_of(t): its [head_dim] elements begin
/// at k + row_of(t) * stride and at v + row_of(t) * stride.
template <class RowOf>
struct RowsBy {
  const bf16* k;  // this head's part of row 0
  const bf16* v;
  int64_t stride;  // elements from one row to the next
  RowOf row_of;    // int row_of(int token); may look it up in memory

  __device__ const bf16* k_row(int token) const { return k + row_of(token) * stride; }
  __device__ const bf16* v_row(int token) const { return v + row_of(token) * stride; }
};

/// Row numbers of a sequence whose tokens lie one after the other: row 0 is token 0's.
struct SameAsToken {
  __device__ int operator()(int token) const { return token; }
};
using EvenRows = RowsBy<SameAsToken>;

/// An address: k and v are [rows, num_kv_heads, head_dim], and the tokens of a sequence lie one
/// after the other from row begin[seq] on.
template <class Index>
struct Contiguous {
  const void* k;
  const void* v;
  const Index* begin;  // [num_seqs]
  int num_kv_heads;
  int head_dim;

  __device__ EvenRows rows(int seq, int kv_head) const {
    const int64_t stride = static_cast<int64_t>(num_kv_heads) * head_dim;
    const int64_t at = begin[seq] * stride + static_cast<int64_t>(kv_head) * head_dim;
    return {.k = static_cast<const bf16*>(k) + at,
            .v = static_cast<const bf16*>(v) + at,
            .stride = stride,
            .row_of = {}};
  }
};

}  // namespace kv::attention
