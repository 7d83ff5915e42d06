#pragma once

// The first way to attend over blocks: copy each sequence's K and V together, then use lesson 02's
// kernel, which knows nothing of blocks. Right, simple, and three times the traffic: rows are read,
// written, and read again.

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/device.h"
#include "common/model/config.h"
#include "lessons/02_flat_cache/decode_attention.h"
#include "paged_attention_base.h"
#include "paged_kv_cache.h"

namespace lesson03 {

/// Borrows the cache and the stream. A pass is begin_pass(), then the model's forward().
class GatheredAttention : public PagedAttentionBase {
 public:
  /// Throws UserError if the attention kernels do not serve the model's head_dim.
  GatheredAttention(const kv::ModelConfig& config, const kv::Stream& stream,
                    const PagedKvCache& cache);

  void begin_pass(std::span<const PagedRows> sequences) override;
  void forward(const kv::AttentionRows& rows, const kv::Stream& stream) override;
  int64_t kv_bytes_copied() const override { return kv_bytes_copied_; }

 private:
  void upload_metadata(std::span<const PagedRows> sequences);
  void make_room();

  kv::ModelConfig config_;
  const kv::Stream* stream_;
  const PagedKvCache* cache_;
  int64_t kv_bytes_copied_ = 0;
  int64_t num_gathered_ = 0;  // tokens of this pass's sequences

  // One copy to the device for each pass carries all of it:
  //   slot_mapping int64 [num_rows], out_begin int64 [num_seqs],
  //   first_row int32 [num_seqs + 1], seq_len int32 [num_seqs],
  //   block_tables int32 [num_seqs, max_blocks_per_seq]
  std::vector<int32_t> metadata_;
  kv::DeviceBuffer device_metadata_;
  const int64_t* slot_mapping_ = nullptr;  // inside device_metadata_, as these two
  const int32_t* block_tables_ = nullptr;
  int max_blocks_per_seq_ = 0;

  kv::DeviceBuffer k_;  // [num_gathered, num_kv_heads, head_dim]: of one layer, used by all
  kv::DeviceBuffer v_;
  kv::DeviceBuffer workspace_;
  lesson02::DecodeAttentionArgs args_;  // of this pass, without what forward() adds for a layer
};

}  // namespace lesson03
