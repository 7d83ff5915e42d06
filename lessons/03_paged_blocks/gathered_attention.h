#pragma once

// The first way to attend over blocks: copy each sequence's K and V together, then use lesson 02's
// kernel, which knows nothing of blocks. Right, simple, and three times the traffic: rows are read,
// written, and read again.

#include <cstdint>

#include "common/base/device.h"
#include "common/model/config.h"
#include "lessons/02_flat_cache/decode_attention.h"
#include "paged_attention_base.h"
#include "paged_kv_cache.h"

namespace lesson03 {

class GatheredAttention : public PagedAttentionBase {
 public:
  using PagedAttentionBase::PagedAttentionBase;

  void begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) override;
  void forward(const kv::AttentionRows& rows, const kv::Stream& stream) override;
  int64_t kv_bytes_copied() const override { return kv_bytes_copied_; }

 private:
  int64_t kv_bytes_copied_ = 0;
  int64_t num_gathered_ = 0;  // tokens of this pass's sequences

  kv::DeviceBuffer k_;  // [num_gathered, num_kv_heads, head_dim]: of one layer, used by all
  kv::DeviceBuffer v_;
  kv::DeviceBuffer workspace_;
  lesson02::DecodeAttentionArgs args_;  // of this pass, without what forward() adds for a layer
};

}  // namespace lesson03
