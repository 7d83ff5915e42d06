#pragma once

// The model's Attention on top of a paged cache: write this pass's K and V into their slots, then
// read all of them through the block tables.

#include "common/base/device.h"
#include "common/model/config.h"
#include "lessons/03_paged_blocks/paged_attention_base.h"
#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "paged_attention.h"

namespace lesson04 {

using lesson03::PagedKvCache;
/// Who owns which block is not known here.
class PagedCacheAttention : public lesson03::PagedAttentionBase {
 public:
  /// Throws UserError if the attention kernels do not serve the cache's block size.
  PagedCacheAttention(const kv::ModelConfig& config, PagedKvCache& cache);

  /// Passes with one row for each sequence can be replayed: the grids depend on the number of
  /// sequences and a bound of their lengths; tables, lengths and slots are read from device memory.
  void begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) override;
  void forward(const kv::AttentionRows& rows, const kv::Stream& stream) override;
  bool makes_heads() const override;

 protected:
  /// What forward() asks of the kernel for these rows.
  PagedAttentionArgs args_of(const kv::AttentionRows& rows) const;

 private:
  /// Puts this pass's K and V into their slots of the layer.
  void keep(const kv::AttentionRows& rows, const kv::Stream& stream) const;

  kv::DeviceBuffer workspace_;
  PagedAttentionArgs args_;  // of this pass, without what forward() adds for a layer
};

}  // namespace lesson04
