#pragma once

// Writes this pass's K and V rows into a flat cache.

#include <cstdint>

#include "common/base/device.h"

namespace lesson02 {

struct AppendKvArgs {
  const void* k = nullptr;  // [num_rows, num_kv_heads, head_dim], activation dtype
  const void* v = nullptr;  // [num_rows, num_kv_heads, head_dim]
  /// Where row r goes: token position row_position[r] of slab row_slab[r]. On the stream's device.
  const int32_t* row_slab = nullptr;      // [num_rows]
  const int32_t* row_position = nullptr;  // [num_rows]
  int num_rows = 0;
  int row_elements = 0;                 // num_kv_heads * head_dim
  const int64_t* slab_begin = nullptr;  // [num_slabs]: first token slot of each slab in the cache
  void* k_cache = nullptr;              // one layer: [token slots, num_kv_heads, head_dim]
  void* v_cache = nullptr;              // one layer: [token slots, num_kv_heads, head_dim]
};

void append_kv_cpu(const AppendKvArgs& args);
void append_kv_cuda(const AppendKvArgs& args, const kv::Stream& stream);
inline void append_kv(const AppendKvArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(append_kv, args, stream);
}

}  // namespace lesson02
