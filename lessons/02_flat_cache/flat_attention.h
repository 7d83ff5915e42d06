#pragma once

// The model's Attention on top of a flat cache: write this pass's K and V, then read all of them.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/device.h"
#include "common/model/attention.h"
#include "common/model/config.h"
#include "decode_attention.h"
#include "flat_kv_cache.h"

namespace lesson02 {

/// The rows that one sequence has in a pass: its next num_rows tokens after the slab's position.
struct SlabRows {
  int slab = 0;
  int num_rows = 0;
};

/// Borrows the cache and the stream. A pass is begin_pass(), the model's forward(), end_pass().
class FlatAttention : public kv::Attention {
 public:
  /// Throws UserError if the attention kernels do not serve the model's head_dim.
  FlatAttention(const kv::ModelConfig& config, const kv::Stream& stream, FlatKvCache& cache);

  /// Says what the rows of the next pass are, one sequence after the other. Throws UserError if a
  /// slab has no room for its rows; nothing has changed then.
  void begin_pass(std::span<const SlabRows> sequences);
  void forward(const kv::AttentionRows& rows, const kv::Stream& stream) override;
  /// The last layer is done: moves the positions.
  void end_pass();

  /// Passes with one row for each sequence can be replayed: the grids depend on the number of
  /// sequences, lengths and places are read from device memory.
  std::optional<uint64_t> graph_key() const override;

 private:
  void upload_metadata();
  void make_workspace();

  kv::ModelConfig config_;
  const kv::Stream* stream_;
  FlatKvCache* cache_;
  std::vector<SlabRows> sequences_;  // of this pass

  // One copy to the device for each pass carries all of it:
  //   slab_begin  int64 [batch], sequence_begin int64 [num_seqs],
  //   first_row   int32 [num_seqs + 1], seq_len int32 [num_seqs],
  //   row_slab    int32 [num_rows], row_position int32 [num_rows]
  std::vector<int32_t> metadata_;
  kv::DeviceBuffer device_metadata_;
  const int64_t* slab_begin_ = nullptr;  // this and the next two: inside device_metadata_
  const int32_t* row_slab_ = nullptr;
  const int32_t* row_position_ = nullptr;
  kv::DeviceBuffer workspace_;
  DecodeAttentionArgs args_;  // of this pass, without what forward() adds for a layer
};

}  // namespace lesson02
