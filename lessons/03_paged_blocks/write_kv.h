#pragma once

// Writes this pass's K and V rows into the slots of a paged cache. Source: vLLM's
// reshape_and_cache_flash (v0.22.1: csrc/cache_kernels.cu).

#include <cstdint>

#include "common/base/device.h"
#include "kv_blocks.h"

namespace lesson03 {

struct WriteKvArgs {
  const void* k = nullptr;  // [num_rows, num_kv_heads, head_dim], activation dtype
  const void* v = nullptr;  // [num_rows, num_kv_heads, head_dim]
  /// Row r goes to this slot; kNoSlot: nowhere. On the stream's device. A slot out of the cache's
  /// range is a bug of the caller: an assertion in a debug build, and nothing is written.
  const int64_t* slot_mapping = nullptr;  // [num_rows]
  int num_rows = 0;
  KvBlocks cache;  // one layer
};

void write_kv_cpu(const WriteKvArgs& args);
void write_kv_cuda(const WriteKvArgs& args, const kv::Stream& stream);
inline void write_kv(const WriteKvArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(write_kv, args, stream);
}

}  // namespace lesson03
