#pragma once

// The seam between the model and a lesson.
//
// The forward pass computes Q, K and V for this pass's rows. Where K and V are kept, and how they
// are read back, is what a lesson is about, so the forward pass hands them to this interface.

#include <atomic>
#include <cstdint>

#include "common/base/device.h"
#include "common/base/kernel.h"
#include "common/model/pass.h"
#include "kernels/qk_norm_rope.h"

namespace kv {

/// The rows of one pass, in one layer. Element type: activation_dtype(device): fp32 on the CPU,
/// bf16 on CUDA. QK-norm and RoPE have been applied to q and k. All arrays live on the stream's
/// device, are contiguous, and belong to the model.
struct AttentionRows {
  int layer = 0;
  int window = 0;  // of the layer: how many keys a query sees, its own included; 0: all of them
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
  /// Null, or q, k and v are still to be made, by what qk_norm_rope() does: see makes_heads().
  const QkNormRopeArgs* heads = nullptr;
};

class Attention {
 public:
  Attention() = default;
  Attention(const Attention&) = delete;
  Attention& operator=(const Attention&) = delete;
  virtual ~Attention() = default;

  /// Called before the layers of each pass: adds to `arrays` what forward() will read, and says
  /// whether a CUDA graph may replay the pass, and what its launches depend on then. Throws for
  /// rows that cannot be computed; nothing has changed then.
  virtual void begin_pass(const PassRows& rows, PassArrays& arrays) = 0;
  /// Called once per layer, in order, 0 to num_layers - 1.
  virtual void forward(const AttentionRows& rows, const Stream& stream) = 0;
  /// Whether forward() of this pass would rather get rows.heads than q, k and v, as norm, rotation
  /// and the way into the cache are then one launch. Asked on CUDA, for the fast kernels.
  virtual bool makes_heads() const { return false; }

  /// A number that no other attention has: it stands for all that this one never changes.
  uint64_t id() const { return id_; }

 private:
  static inline std::atomic<uint64_t> next_id_ = 0;
  const uint64_t id_ = next_id_++;
};

}  // namespace kv
