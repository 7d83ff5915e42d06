#pragma once

// The seam between the model and a lesson.
//
// The forward pass computes Q, K and V for this pass's rows and hands them to this interface. Each
// lesson decides where K and V are kept and how they are read back.

#include <atomic>
#include <cstdint>

#include "common/device.h"
#include "common/kernel.h"
#include "kernels/kv_slots.h"
#include "qwen3/pass.h"

namespace kv {

/// The rows of one pass, in one layer. Element type: activation_dtype(device): fp32 on the CPU,
/// bf16 on CUDA. QK-norm and RoPE have been applied to q and k. All arrays live on the stream's
/// device, are contiguous, and belong to the model. k and v are null if Attention::slots() has said
/// where to put them.
struct AttentionRows {
  int layer = 0;
  int window = 0;  // keys that a query of the layer sees, its own included; 0 means no limit
  int num_rows = 0;
  const void* q = nullptr;  // [num_rows, num_heads, head_dim]
  const void* k = nullptr;  // [num_rows, num_kv_heads, head_dim]
  const void* v = nullptr;  // [num_rows, num_kv_heads, head_dim]
  void* out = nullptr;      // [num_rows, num_heads, head_dim], written by forward()
  // The same in every layer; see PassRows.
  int num_seqs = 0;
  const int32_t* positions = nullptr;  // [num_rows]
  const int32_t* first_row = nullptr;  // [num_seqs + 1]
  const int32_t* seq_len = nullptr;    // [num_seqs]
  Kernel kernel = Kernel::kFast;       // which of an op's kernels to use
};

class Attention {
 public:
  Attention() = default;
  Attention(const Attention&) = delete;
  Attention& operator=(const Attention&) = delete;
  virtual ~Attention() = default;

  /// Called before the layers of each pass. Adds the arrays that forward() reads to `arrays`, and
  /// tells it whether a CUDA graph may replay the pass and what the launches depend on. Throws for
  /// rows that cannot be computed, and changes nothing then.
  virtual void begin_pass(const PassRows& rows, PassArrays& arrays) = 0;
  /// The slots of the layer's cache into which the model shall write the rows of K and V as it
  /// computes them. Called in each layer before forward(), when q, k and v are not there yet. By
  /// default there are none: forward() gets rows.k and rows.v, and keeps them as it likes.
  virtual KvSlots slots(const AttentionRows& /*rows*/, const Stream& /*stream*/) { return {}; }
  /// Called once per layer, in order, 0 to num_layers - 1.
  virtual void forward(const AttentionRows& rows, const Stream& stream) = 0;
  /// True if forward() itself rounds K and V to FP8. The model then leaves the rows exact (see
  /// Model::set_kv_format()): rounded rows give the same bits, even if this rounding is wrong.
  virtual bool rounds_kv() const { return false; }

  /// Unique id, part of the CUDA graph's key: it covers everything that this object never changes.
  uint64_t id() const { return id_; }

 private:
  static inline std::atomic<uint64_t> next_id_ = 0;
  const uint64_t id_ = next_id_++;
};

}  // namespace kv
