#include "gathered_attention.h"

#include <algorithm>
#include <cstring>

#include "common/base/error.h"
#include "gather_kv.h"
#include "kernels/attention/contract.h"
#include "write_kv.h"

namespace lesson03 {
namespace {

/// At least `bytes`. Sequences grow by a token in each pass: with room for twice as much, most
/// passes find a buffer that is large enough.
void grow_to(kv::DeviceBuffer& buffer, size_t bytes, kv::Device device) {
  if (buffer.bytes() < bytes) buffer = kv::DeviceBuffer(device, 2 * bytes);
}

}  // namespace

GatheredAttention::GatheredAttention(const kv::ModelConfig& config, const kv::Stream& stream,
                                     const PagedKvCache& cache)
    : config_(config), stream_(&stream), cache_(&cache) {
  if (config.head_dim > kv::attention::kMaxHeadDim) {
    kv::user_error("this model has head_dim {}, the attention kernels serve up to {}",
                   config.head_dim, kv::attention::kMaxHeadDim);
  }
}

void GatheredAttention::begin_pass(std::span<const PagedRows> sequences) {
  args_ = {};
  args_.num_seqs = static_cast<int>(sequences.size());
  args_.num_heads = config_.num_heads;
  args_.num_kv_heads = config_.num_kv_heads;
  args_.head_dim = config_.head_dim;
  num_gathered_ = 0;
  max_blocks_per_seq_ = 0;
  for (const PagedRows& rows : sequences) {
    args_.num_rows += rows.num_rows;
    args_.max_rows_per_seq = std::max(args_.max_rows_per_seq, rows.num_rows);
    args_.max_seq_len = std::max(args_.max_seq_len, rows.table->num_tokens());
    max_blocks_per_seq_ = std::max(max_blocks_per_seq_, rows.table->num_blocks());
    num_gathered_ += rows.table->num_tokens();
  }
  upload_metadata(sequences);
  make_room();
}

void GatheredAttention::upload_metadata(std::span<const PagedRows> sequences) {
  std::vector<int64_t> wide = slot_mapping_of(sequences);
  const size_t num_slots = wide.size();
  std::vector<int32_t> first_row{0}, seq_len;
  int64_t begin = 0;
  for (const PagedRows& rows : sequences) {
    wide.push_back(begin);  // where the sequence's rows go in k_ and v_
    begin += rows.table->num_tokens();
    first_row.push_back(first_row.back() + rows.num_rows);
    seq_len.push_back(rows.table->num_tokens());
  }
  const std::vector<int32_t> tables = pack_block_tables(sequences, max_blocks_per_seq_);

  metadata_.resize(wide.size() * 2);
  std::memcpy(metadata_.data(), wide.data(), wide.size() * sizeof(int64_t));
  for (const auto* part : {&std::as_const(first_row), &std::as_const(seq_len), &tables}) {
    metadata_.insert(metadata_.end(), part->begin(), part->end());
  }
  const size_t bytes = metadata_.size() * sizeof(int32_t);
  grow_to(device_metadata_, bytes, stream_->device());
  kv::copy_to_device_async(device_metadata_.data(), metadata_.data(), bytes, *stream_);

  slot_mapping_ = device_metadata_.as<const int64_t>();
  args_.slab_begin = slot_mapping_ + num_slots;  // lesson 02's kernel: where a sequence begins
  args_.first_row = device_metadata_.as<const int32_t>() + wide.size() * 2;
  args_.seq_len = args_.first_row + first_row.size();
  block_tables_ = args_.seq_len + seq_len.size();
}

void GatheredAttention::make_room() {
  const int64_t layer_bytes =
      cache_->bytes_per_token() / 2 / config_.num_layers;  // K or V of a token in one layer
  const auto bytes = static_cast<size_t>(num_gathered_ * layer_bytes);
  grow_to(k_, bytes, stream_->device());
  grow_to(v_, bytes, stream_->device());
  if (stream_->device() == kv::Device::kCpu) return;
  const size_t workspace_bytes = lesson02::decode_attention_workspace_bytes(args_);
  if (workspace_.bytes() < workspace_bytes) {
    workspace_ = kv::DeviceBuffer(stream_->device(), workspace_bytes);
    kv::fill_bytes(workspace_.data(), 0, workspace_bytes, *stream_);
  }
  args_.workspace = workspace_.data();
}

void GatheredAttention::forward(const kv::AttentionRows& rows, const kv::Stream& stream) {
  const KvBlocks cache = cache_->layer(rows.layer);
  write_kv({.k = rows.k,
            .v = rows.v,
            .slot_mapping = slot_mapping_,
            .num_rows = rows.num_rows,
            .cache = cache},
           stream);
  gather_kv({.cache = cache,
             .block_tables = block_tables_,
             .seq_len = args_.seq_len,
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
  args.all_rows_are_new = true;  // gather_kv has just written all of them
  lesson02::fast_decode_attention(args, stream);
}

}  // namespace lesson03
