#pragma once

// The slots of a cache, into which a pass's rows of K and V go.

#include <cstdint>

#include "common/host_device.h"

namespace kv {

/// One layer's K and V, and the slot of each row of a pass. Source: vLLM's slot_mapping.
struct KvSlots {
  void* k = nullptr;  // [slots, num_kv_heads, head_dim], activation dtype
  void* v = nullptr;  // as k
  /// On the stream's device. A row with a negative slot is not written. Null: row i has slot i.
  const int64_t* slot_mapping = nullptr;  // [num_rows]

  KV_HOST_DEVICE int64_t slot_of(int64_t row) const {
    return slot_mapping == nullptr ? row : slot_mapping[row];
  }
};

}  // namespace kv
