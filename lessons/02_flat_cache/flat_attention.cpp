#include "flat_attention.h"

#include <stdexcept>

#include "append_kv.h"
#include "common/base/error.h"
#include "kernels/attention/contract.h"

namespace lesson02 {

using kv::attention::kMaxHeadDim;

FlatAttention::FlatAttention(const kv::ModelConfig& config, FlatKvCache& cache)
    : config_(config), cache_(&cache) {
  if (config.head_dim > kMaxHeadDim) {
    kv::user_error("this model has head_dim {}, the attention kernels serve up to {}",
                   config.head_dim, kMaxHeadDim);
  }
}

void FlatAttention::begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) {
  if (slabs_.size() != rows.seq_len.size()) throw std::logic_error("wanted a slab per sequence");
  std::vector<int64_t> slab_begin, seq_begin;
  for (int slab = 0; slab < cache_->batch(); ++slab) slab_begin.push_back(cache_->slab_begin(slab));
  row_slab_.clear();
  for (size_t i = 0; i < slabs_.size(); ++i) {
    const int num_rows = rows.first_row[i + 1] - rows.first_row[i];
    cache_->check_room(slabs_[i], num_rows);
    seq_begin.push_back(cache_->slab_begin(slabs_[i]));
    row_slab_.insert(row_slab_.end(), static_cast<size_t>(num_rows), slabs_[i]);
  }
  args_ = {.num_seqs = rows.num_seqs(),
           .num_rows = rows.num_rows(),
           .max_rows_per_seq = rows.max_rows_per_seq(),
           .max_seq_len = rows.max_seq_len(),
           .num_heads = config_.num_heads,
           .num_kv_heads = config_.num_kv_heads,
           .head_dim = config_.head_dim};
  args_.workspace = arrays.zeroed_workspace(workspace_, decode_attention_workspace_bytes(args_));
  arrays.add(slab_begin, device_slab_begin_);
  arrays.add(seq_begin, args_.slab_begin);
  arrays.add(row_slab_, device_row_slab_);
  if (args_.max_rows_per_seq == 1) arrays.allow_replay();
}

void FlatAttention::forward(const kv::AttentionRows& rows, const kv::Stream& stream) {
  void* k_cache = cache_->k_layer(rows.layer);
  void* v_cache = cache_->v_layer(rows.layer);
  append_kv({.k = rows.k,
             .v = rows.v,
             .row_slab = device_row_slab_,
             .row_position = rows.positions,
             .num_rows = rows.num_rows,
             .row_elements = config_.kv_width(),
             .slab_begin = device_slab_begin_,
             .k_cache = k_cache,
             .v_cache = v_cache},
            stream);
  DecodeAttentionArgs args = args_;
  args.q = rows.q;
  args.k_cache = k_cache;
  args.v_cache = v_cache;
  args.out = rows.out;
  args.first_row = rows.first_row;
  args.seq_len = rows.seq_len;
  const bool plain = rows.kernel == kv::Kernel::kPlain;
  (plain ? decode_attention : fast_decode_attention)(args, stream);
}

void FlatAttention::end_pass() {
  for (const int32_t slab : row_slab_) cache_->advance(slab, 1);
  row_slab_.clear();
}

}  // namespace lesson02
