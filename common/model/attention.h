#pragma once

// The seam between the model and a lesson.
//
// The forward pass computes Q, K and V for this pass's rows. Where K and V are kept, and how they
// are read back, is what a lesson is about, so the forward pass hands them to this interface.

#include <cstdint>
#include <optional>

#include "common/base/device.h"

namespace kv {

/// The rows of one pass, in one layer. Element type: activation_dtype(device): fp32 on the CPU,
/// bf16 on CUDA. QK-norm and RoPE have been applied to q and k. All arrays live on the stream's
/// device, are contiguous, and belong to the model.
struct AttentionRows {
  int layer = 0;
  int num_rows = 0;
  const void* q = nullptr;  // [num_rows, num_heads, head_dim]
  const void* k = nullptr;  // [num_rows, num_kv_heads, head_dim]
  const void* v = nullptr;  // [num_rows, num_kv_heads, head_dim]
  void* out = nullptr;      // [num_rows, num_heads, head_dim], written by forward()
};

class Attention {
 public:
  virtual ~Attention() = default;

  /// Called once per layer, in order, 0 to num_layers - 1. Which sequence and position a row
  /// belongs to is known to the implementation: its engine composed the pass.
  virtual void forward(const AttentionRows& rows, const Stream& stream) = 0;

  /// A CUDA graph may replay a pass if every launch of forward() depends on this key alone: same
  /// kernels, same grids, same pointers; what changes from pass to pass (lengths, tables) is read
  /// from device memory that the engine updates before the pass. No value: do not replay.
  virtual std::optional<uint64_t> graph_key() const { return std::nullopt; }
};

}  // namespace kv
