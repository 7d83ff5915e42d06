#pragma once

// The model's Attention on top of a flat cache: write this pass's K and V, then read all of them.

#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/device.h"
#include "common/model/attention.h"
#include "common/model/config.h"
#include "decode_attention.h"
#include "flat_kv_cache.h"

namespace lesson02 {

/// Borrows the cache and the stream. A pass is set_slabs(), the model's forward(), end_pass().
class FlatAttention : public kv::Attention {
 public:
  /// Throws UserError if the attention kernels do not serve the model's head_dim.
  FlatAttention(const kv::ModelConfig& config, FlatKvCache& cache);

  /// The slabs of the next pass's sequences, in their order.
  void set_slabs(std::vector<int32_t> slabs) { slabs_ = std::move(slabs); }
  /// Throws UserError if a slab has no room for its rows; nothing has changed then. Passes with one
  /// row for each sequence can be replayed: the grids depend on the number of sequences, lengths
  /// and places are read from device memory.
  void begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) override;
  void forward(const kv::AttentionRows& rows, const kv::Stream& stream) override;
  /// The last layer is done: moves the positions.
  void end_pass();

 private:
  kv::ModelConfig config_;
  FlatKvCache* cache_;
  // Of this pass:
  std::vector<int32_t> slabs_;                  // [num_seqs]
  std::vector<int32_t> row_slab_;               // [num_rows]
  const int64_t* device_slab_begin_ = nullptr;  // [batch]
  const int32_t* device_row_slab_ = nullptr;
  kv::DeviceBuffer workspace_;
  DecodeAttentionArgs args_;  // without what forward() adds for a layer
};

}  // namespace lesson02
