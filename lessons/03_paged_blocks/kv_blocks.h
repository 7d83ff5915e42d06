#pragma once

// One layer of a paged cache as a kernel sees it, and the two ops that move rows into their slots,
// and out in token order. Sources: vLLM's reshape_and_cache_flash and
// gather_and_maybe_dequant_cache (v0.22.1: csrc/cache_kernels.cu).

#include <cstdint>

#include "common/device.h"
#include "common/host_device.h"

namespace lesson03 {

inline constexpr int64_t kNoSlot = -1;  // do not write (vLLM: the padding of slot_mapping)

/// K and V of one layer, in activation dtype: [num_blocks, block_size, num_kv_heads, head_dim].
struct KvBlocks {
  void* k = nullptr;
  void* v = nullptr;
  int num_blocks = 0;
  int block_size = 0;  // tokens per block
  int num_kv_heads = 0;
  int head_dim = 0;

  KV_HOST_DEVICE int row_width() const { return num_kv_heads * head_dim; }  // elements
  /// The first element of the row in slot (block_id, offset): in 64 bits, as a layer may have more
  /// than 2^31 elements.
  KV_HOST_DEVICE int64_t element(int64_t block_id, int offset) const {
    return (block_id * block_size + offset) * row_width();
  }
  KV_HOST_DEVICE bool has_slot(int64_t slot) const {
    return slot >= 0 && slot < int64_t{num_blocks} * block_size;
  }
};

/// The row of K, or of V, in slot (block_id, offset): [num_kv_heads, head_dim] activations.
template <class T>
KV_HOST_DEVICE inline T* k_row(const KvBlocks& cache, int64_t block_id, int offset) {
  return static_cast<T*>(cache.k) + cache.element(block_id, offset);
}
template <class T>
KV_HOST_DEVICE inline T* v_row(const KvBlocks& cache, int64_t block_id, int offset) {
  return static_cast<T*>(cache.v) + cache.element(block_id, offset);
}

struct WriteKvArgs {
  const void* k = nullptr;  // [num_rows, num_kv_heads, head_dim], activation dtype
  const void* v = nullptr;  // [num_rows, num_kv_heads, head_dim]
  /// The slot of each row; a row with kNoSlot is not written. On the stream's device. A slot
  /// outside the cache is a bug of the caller: an assertion fails in a debug build, and otherwise
  /// nothing is written.
  const int64_t* slot_mapping = nullptr;  // [num_rows]
  int num_rows = 0;
  KvBlocks cache;  // one layer
};

void write_kv_cpu(const WriteKvArgs& args);
void write_kv_cuda(const WriteKvArgs& args, const kv::Stream& stream);
inline void write_kv(const WriteKvArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(write_kv, args, stream);
}

struct GatherKvArgs {
  KvBlocks cache;  // one layer
  /// Row i is the block table of sequence i; entries after its last block are never read. On the
  /// stream's device, like the arrays below.
  const int32_t* block_tables = nullptr;  // [num_seqs, max_blocks_per_seq]
  const int32_t* seq_len = nullptr;       // [num_seqs], tokens to gather
  const int64_t* out_begin = nullptr;     // [num_seqs], first row of each sequence in k_out, v_out
  int max_blocks_per_seq = 0;
  int num_seqs = 0;
  int max_seq_len = 0;    // an upper bound of seq_len (sizes the grid)
  void* k_out = nullptr;  // [rows, num_kv_heads, head_dim]
  void* v_out = nullptr;
};

void gather_kv_cpu(const GatherKvArgs& args);
void gather_kv_cuda(const GatherKvArgs& args, const kv::Stream& stream);
inline void gather_kv(const GatherKvArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(gather_kv, args, stream);
}

}  // namespace lesson03
