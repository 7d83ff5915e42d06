#pragma once

// The model's Attention on top of a paged cache: write this pass's K and V into their slots, then
// read all of them through the block tables.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/device.h"
#include "common/model/config.h"
#include "lessons/03_paged_blocks/paged_attention_base.h"
#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "paged_attention.h"

namespace lesson04 {

using lesson03::PagedKvCache;
using lesson03::PagedRows;

/// Fills slot_mapping [pass.num_rows] on the stream's device. `pass` has the tables there already.
using ComputeSlots = void (*)(const PagedAttentionArgs& pass, int64_t* slot_mapping,
                              const kv::Stream& stream);

/// Borrows the cache and the stream. A pass is begin_pass(), then the model's forward(). Who owns
/// which block is not known here.
class PagedCacheAttention : public lesson03::PagedAttentionBase {
 public:
  /// Throws UserError if the attention kernels do not serve the model's head_dim or the cache's
  /// block size. `compute_slots`: null for slots that the host works out (lesson 08 has a kernel).
  PagedCacheAttention(const kv::ModelConfig& config, const kv::Stream& stream,
                      const PagedKvCache& cache, ComputeSlots compute_slots = nullptr);

  void begin_pass(std::span<const PagedRows> sequences) override;
  void forward(const kv::AttentionRows& rows, const kv::Stream& stream) override;

  /// Passes with one row for each sequence can be replayed: the grids depend on the number of
  /// sequences and a bound of their lengths; tables, lengths and slots are read from device memory.
  std::optional<uint64_t> graph_key() const override;

 protected:
  /// What forward() asks of the kernel for these rows.
  PagedAttentionArgs args_of(const kv::AttentionRows& rows) const;

 private:
  void upload_metadata(std::span<const PagedRows> sequences);
  void make_workspace();

  kv::ModelConfig config_;
  const kv::Stream* stream_;
  const PagedKvCache* cache_;

  ComputeSlots compute_slots_;

  // One copy to the device for each pass carries all of it, or all behind the slots:
  //   slot_mapping int64 [num_rows], first_row int32 [num_seqs + 1], seq_len int32 [num_seqs],
  //   block_tables int32 [num_seqs, max_blocks_per_seq]
  std::vector<int32_t> metadata_;
  kv::DeviceBuffer device_metadata_;
  const int64_t* slot_mapping_ = nullptr;  // inside device_metadata_
  kv::DeviceBuffer workspace_;
  PagedAttentionArgs args_;  // of this pass, without what forward() adds for a layer
};

}  // namespace lesson04
