#pragma once

// How kernels find K and V through a block table. The kernels of kernels/attention take "a struct
// that says where a row is" as a template parameter; these are the structs for blocks.

#include "kernels/attention/tensor_tile.cuh"
#include "lessons/03_paged_blocks/kv_blocks.h"

namespace lesson04 {

using kv::attention::bf16;
using kv::attention::Pairs;
using lesson03::KvBlocks;

/// Where the rows of one KV head are, by slot. `first`: slot 0's, or 0's of a block.
struct PooledRows {
  const bf16* first;
  int64_t stride;  // elements from one slot's row to the next

  __device__ const bf16* operator()(int slot) const { return first + slot * stride; }
};

/// The same when every block is an allocation of its own.
struct SeparateRows {
  void* const* block;
  int64_t offset;  // elements from a block's begin to this head's part of its first row
  int64_t stride;
  int shift;

  __device__ const bf16* operator()(int slot) const {
    return static_cast<const bf16*>(block[slot >> shift]) + offset +
           (slot & ((1 << shift) - 1)) * stride;
  }
};

/// One layer in blocks of 2^shift tokens, and the tables of this pass's sequences. kSeparate: every
/// block is an allocation of its own.
template <bool kSeparate>
struct PagedCache {
  KvBlocks blocks;
  const int32_t* block_tables;  // [num_seqs, max_blocks_per_seq]
  int max_blocks_per_seq;
  int shift;

  /// slot = block_id * block_size + offset. One lookup for each token; tokens of one block find the
  /// same entry, which the first of them has brought into the L1 cache. 32 bits are enough: 2^31
  /// slots would not fit on any GPU (fast_paged_attention_cuda refuses them). An element's number
  /// needs 64.
  __device__ int slot(int seq, int token) const {
    const int64_t entry = static_cast<int64_t>(seq) * max_blocks_per_seq + (token >> shift);
    return (block_tables[entry] << shift) | (token & ((1 << shift) - 1));
  }
  /// This head's rows, from `element` of the head on.
  __device__ auto k_rows(int kv_head, int element) const {
    return rows_of(blocks.k, blocks.k_block, kv_head, element);
  }
  __device__ auto v_rows(int kv_head, int element) const {
    return rows_of(blocks.v, blocks.v_block, kv_head, element);
  }

  /// The same for one sequence and head, by token: what most of these kernels ask for.
  struct Rows {
    PagedCache cache;
    int seq;
    int kv_head;
    __device__ const bf16* k_row(int token) const {
      return cache.k_rows(kv_head, 0)(cache.slot(seq, token));
    }
    __device__ const bf16* v_row(int token) const {
      return cache.v_rows(kv_head, 0)(cache.slot(seq, token));
    }
  };
  __device__ Rows rows(int seq, int kv_head) const { return {*this, seq, kv_head}; }
  /// Tokens whose rows were in the cache before this pass.
  __device__ int num_settled(const Pairs& pairs) const { return pairs.seq_len - pairs.num_rows; }

 private:
  __device__ auto rows_of(const void* pool, void* const* block, int kv_head, int element) const {
    const int64_t offset = static_cast<int64_t>(kv_head) * blocks.head_dim + element;
    const int64_t stride = static_cast<int64_t>(blocks.num_kv_heads) * blocks.head_dim;
    if constexpr (kSeparate) {
      return SeparateRows{block, offset, stride, shift};
    } else {
      return PooledRows{static_cast<const bf16*>(pool) + offset, stride};
    }
  }
};

/// Slabs, as lesson 02 has them, for the same kernels: what paging is compared with.
struct ContiguousCache {
  const bf16* k;
  const bf16* v;
  const int64_t* slab_begin;  // [num_seqs], first slot of each sequence
  int num_kv_heads;
  int head_dim;

  __device__ int slot(int seq, int token) const {
    return static_cast<int>(slab_begin[seq]) + token;
  }
  __device__ PooledRows k_rows(int kv_head, int element) const {
    return {k + kv_head * head_dim + element, static_cast<int64_t>(num_kv_heads) * head_dim};
  }
  __device__ PooledRows v_rows(int kv_head, int element) const {
    return {v + kv_head * head_dim + element, static_cast<int64_t>(num_kv_heads) * head_dim};
  }
};

}  // namespace lesson04
