#pragma once

// Where K and V of a sequence are in FP8 pages, as codes. rows.cuh does the same for bf16.

#include <bit>
#include <cstdint>

#include "kernels/attention/rows.cuh"

namespace kv::attention {

/// The addresses of the codes and scales of a token and one KV head. Within 16 tokens of a block,
/// the codes of the next token are `stride` bytes further on, and its scales one byte.
struct TokenCodes {
  const uint8_t* k;
  const uint8_t* v;
  const uint8_t* scales_of_k;
  const uint8_t* scales_of_v;
};

/// One sequence and KV head.
struct Fp8Rows {
  static constexpr bool kHasCodes = true;
  const uint8_t* k;  // this head's part of row 0
  const uint8_t* v;
  const uint8_t* scales;  // this head's in block 0: [K, V][block_size]
  const int32_t* table;
  int stride;  // bytes from one row to the next
  int scale_stride;
  int shift;  // a block has 2^shift tokens

  __device__ int block_of(int token) const { return table[token >> shift]; }
  __device__ int row_of(int token) const {
    return (block_of(token) << shift) + (token & ((1 << shift) - 1));
  }
  __device__ TokenCodes at(int token) const { return at(token, block_of(token)); }
  /// The same for a token whose block is known.
  __device__ TokenCodes at(int token, int64_t block) const {
    const int offset = token & ((1 << shift) - 1);
    const int64_t byte = ((block << shift) + offset) * stride;
    const uint8_t* const of_block = scales + block * scale_stride + offset;
    return {k + byte, v + byte, of_block, of_block + (1 << shift)};
  }
};

/// An address (rows.cuh): one layer's K and V, [num_blocks, block_size, num_kv_heads, head_dim].
struct Fp8Blocks {
  const void* k;
  const void* v;
  const uint8_t* scales;        // [num_blocks][num_kv_heads][K, V][block_size], a byte e + 127 each
  const int32_t* block_tables;  // [num_seqs, max_blocks_per_seq]
  int max_blocks_per_seq;
  int num_blocks;
  int block_size;
  int scale_stride;  // bytes of scales from one block to the next
  int num_kv_heads;
  int head_dim;
  int shift = std::countr_zero(static_cast<unsigned>(block_size));

  __device__ Fp8Rows rows(int seq, int kv_head) const {
    const int begin = kv_head * head_dim;
    return {.k = static_cast<const uint8_t*>(k) + begin,
            .v = static_cast<const uint8_t*>(v) + begin,
            .scales = scales + 2 * kv_head * block_size,
            .table = block_tables + static_cast<int64_t>(seq) * max_blocks_per_seq,
            .stride = num_kv_heads * head_dim,
            .scale_stride = scale_stride,
            .shift = shift};
  }
  LayerRows layer() const {
    return {k, v, int64_t{num_blocks} << shift, int64_t{num_kv_heads} * head_dim, block_size};
  }
};

}  // namespace kv::attention
