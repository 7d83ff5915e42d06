#pragma once

// Writes this pass's K and V into their slots as FP8: lesson 03's write_kv, with a scale for each
// head of each row. Source: vLLM's reshape_and_cache_flash with kv_cache_dtype fp8 (v0.22.1:
// csrc/cache_kernels.cu), whose scale is one for all tokens.

#include <cstdint>

#include "common/device.h"
#include "common/host_device.h"
#include "fp8_kv_cache.h"

namespace lesson14 {

/// A head of K, or of V, in slot (block_id, offset): its codes and the byte of its scale.
struct Fp8Head {
  uint8_t* codes;  // [head_dim]
  uint8_t* scale;
};
KV_HOST_DEVICE inline Fp8Head fp8_head(const Fp8Blocks& cache, bool is_k, int64_t block_id,
                                       int offset, int kv_head) {
  uint8_t* const row = is_k ? lesson03::k_row<uint8_t>(cache, block_id, offset)
                            : lesson03::v_row<uint8_t>(cache, block_id, offset);
  const int scale = (2 * kv_head + (is_k ? 0 : 1)) * cache.block_size + offset;
  return {row + kv_head * cache.head_dim, cache.scales + block_id * cache.scale_stride() + scale};
}

/// As lesson 03's WriteKvArgs: rows in the activation dtype, of which those with kNoSlot are not
/// written.
struct WriteKvFp8Args {
  const void* k = nullptr;                // [num_rows, num_kv_heads, head_dim]
  const void* v = nullptr;                // [num_rows, num_kv_heads, head_dim]
  const int64_t* slot_mapping = nullptr;  // [num_rows]
  int num_rows = 0;
  Fp8Blocks cache;  // one layer
};

/// The scale of a head is that of its largest magnitude. It depends on nothing else: not on the
/// block, its other tokens, the pass or the order of writes.
void write_kv_fp8_cpu(const WriteKvFp8Args& args);
void write_kv_fp8_cuda(const WriteKvFp8Args& args, const kv::Stream& stream);
inline void write_kv_fp8(const WriteKvFp8Args& args, const kv::Stream& stream) {
  KV_DISPATCH(write_kv_fp8, args, stream);
}

}  // namespace lesson14
