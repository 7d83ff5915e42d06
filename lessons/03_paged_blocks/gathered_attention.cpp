#include "gathered_attention.h"

#include <vector>

#include "lessons/02_flat_cache/engine.h"

namespace lesson03 {

void GatheredAttention::begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) {
  PagedAttentionBase::begin_pass(rows, arrays);
  std::vector<int64_t> begin;  // where each sequence's rows go in k_ and v_
  num_gathered_ = 0;
  for (const int32_t seq_len : rows.seq_len) {
    begin.push_back(num_gathered_);
    num_gathered_ += seq_len;
  }
  const int64_t layer_bytes =
      cache_->bytes_per_token() / 2 / config_.num_layers;  // K or V of a token in one layer
  const auto bytes = static_cast<size_t>(num_gathered_ * layer_bytes);
  arrays.make_room(k_, bytes);
  arrays.make_room(v_, bytes);
  args_ = lesson02::sizes_of(rows, config_);
  args_.workspace =
      arrays.zeroed_workspace(workspace_, lesson02::decode_attention_workspace_bytes(args_));
  arrays.add(begin, args_.slab_begin);  // lesson 02's kernel: where a sequence begins
}

void GatheredAttention::forward(const kv::AttentionRows& rows, const kv::Stream& stream) {
  gather_kv({.cache = write(rows, stream),
             .block_tables = block_tables_,
             .seq_len = rows.seq_len,
             .out_begin = args_.slab_begin,
             .max_blocks_per_seq = max_blocks_per_seq_,
             .num_seqs = args_.num_seqs,
             .max_seq_len = args_.max_seq_len,
             .k_out = k_.data(),
             .v_out = v_.data()},
            stream);
  kv_bytes_copied_ += num_gathered_ * (cache_->bytes_per_token() / config_.num_layers);

  lesson02::DecodeAttentionArgs args = args_;
  args.q = rows.q;
  args.k_cache = k_.data();
  args.v_cache = v_.data();
  args.out = rows.out;
  args.first_row = rows.first_row;
  args.seq_len = rows.seq_len;
  args.window = rows.window;
  const bool plain = rows.kernel == kv::Kernel::kPlain;
  (plain ? lesson02::decode_attention : lesson02::fast_decode_attention)(args, stream);
}

}  // namespace lesson03
