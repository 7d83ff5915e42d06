#include "paged_attention_base.h"

#include <algorithm>

#include "common/base/error.h"
#include "kernels/attention/contract.h"

namespace lesson03 {

using kv::attention::kGroupTokens;
using kv::attention::kMaxHeadDim;

PagedAttentionBase::PagedAttentionBase(const kv::ModelConfig& config, const PagedKvCache& cache)
    : config_(config), cache_(&cache) {
  if (config.head_dim > kMaxHeadDim) {
    kv::user_error("this model has head_dim {}, the attention kernels serve up to {}",
                   config.head_dim, kMaxHeadDim);
  }
}

void PagedAttentionBase::begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) {
  // Whole groups of keys, so that the sizes stay for as many steps. No sequence outgrows the pool.
  const int64_t groups = (int64_t{rows.max_seq_len()} + kGroupTokens - 1) / kGroupTokens;
  const int64_t pool_tokens = int64_t{cache_->num_blocks()} * cache_->block_size();
  max_seq_len_ = static_cast<int>(std::min(groups * kGroupTokens, pool_tokens));
  max_blocks_per_seq_ = blocks_for(max_seq_len_, cache_->block_size());
  arrays.add(pack_block_tables(rows, tables_, max_blocks_per_seq_), block_tables_);
  arrays.launches_depend_on(static_cast<uint64_t>(max_seq_len_));
  add_slots(rows, arrays);
}

void PagedAttentionBase::add_slots(const kv::PassRows& rows, kv::PassArrays& arrays) {
  arrays.add(slot_mapping_of(rows, tables_), slot_mapping_);
}

}  // namespace lesson03
