#include "flat_attention.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "append_kv.h"
#include "common/base/error.h"
#include "common/base/hash.h"
#include "kernels/attention/contract.h"

namespace lesson02 {

using kv::attention::kGroupTokens;
using kv::attention::kMaxHeadDim;

FlatAttention::FlatAttention(const kv::ModelConfig& config, const kv::Stream& stream,
                             FlatKvCache& cache)
    : config_(config), stream_(&stream), cache_(&cache) {
  if (config.head_dim > kMaxHeadDim) {
    kv::user_error("this model has head_dim {}, the attention kernels serve up to {}",
                   config.head_dim, kMaxHeadDim);
  }
}

void FlatAttention::begin_pass(std::span<const SlabRows> sequences) {
  for (const SlabRows& rows : sequences) cache_->check_room(rows.slab, rows.num_rows);
  sequences_.assign(sequences.begin(), sequences.end());

  args_ = {};
  args_.num_seqs = static_cast<int>(sequences.size());
  args_.num_heads = config_.num_heads;
  args_.num_kv_heads = config_.num_kv_heads;
  args_.head_dim = config_.head_dim;
  int longest = 0;
  for (const SlabRows& rows : sequences_) {
    args_.num_rows += rows.num_rows;
    args_.max_rows_per_seq = std::max(args_.max_rows_per_seq, rows.num_rows);
    longest = std::max(longest, cache_->position(rows.slab) + rows.num_rows);
  }
  // Whole groups: the grid, and with it a replayed graph, stays for as many steps.
  const int64_t groups = (int64_t{longest} + kGroupTokens - 1) / kGroupTokens;
  args_.max_seq_len =
      static_cast<int>(std::min<int64_t>(groups * kGroupTokens, cache_->max_seq_len()));
  upload_metadata();
  make_workspace();
}

void FlatAttention::upload_metadata() {
  std::vector<int64_t> begins;
  for (int slab = 0; slab < cache_->batch(); ++slab) begins.push_back(cache_->slab_begin(slab));
  std::vector<int32_t> first_row{0}, seq_len, row_slab, row_position;
  for (const SlabRows& rows : sequences_) {
    const int position = cache_->position(rows.slab);
    begins.push_back(cache_->slab_begin(rows.slab));
    first_row.push_back(first_row.back() + rows.num_rows);
    seq_len.push_back(position + rows.num_rows);
    for (int i = 0; i < rows.num_rows; ++i) {
      row_slab.push_back(rows.slab);
      row_position.push_back(position + i);
    }
  }

  metadata_.resize(begins.size() * 2);
  std::memcpy(metadata_.data(), begins.data(), begins.size() * sizeof(int64_t));
  for (const auto* part : {&first_row, &seq_len, &row_slab, &row_position}) {
    metadata_.insert(metadata_.end(), part->begin(), part->end());
  }
  const size_t bytes = metadata_.size() * sizeof(int32_t);
  if (device_metadata_.bytes() < bytes) {
    device_metadata_ = kv::DeviceBuffer(stream_->device(), bytes);
  }
  kv::copy_to_device_async(device_metadata_.data(), metadata_.data(), bytes, *stream_);

  slab_begin_ = device_metadata_.as<const int64_t>();
  args_.slab_begin = slab_begin_ + cache_->batch();
  args_.first_row = device_metadata_.as<const int32_t>() + begins.size() * 2;
  args_.seq_len = args_.first_row + first_row.size();
  row_slab_ = args_.seq_len + seq_len.size();
  row_position_ = row_slab_ + row_slab.size();
}

void FlatAttention::make_workspace() {
  if (stream_->device() == kv::Device::kCpu) return;
  const size_t bytes = decode_attention_workspace_bytes(args_);
  if (workspace_.bytes() < bytes) {
    workspace_ = kv::DeviceBuffer(stream_->device(), bytes);
    kv::fill_bytes(workspace_.data(), 0, bytes, *stream_);
  }
  args_.workspace = workspace_.data();
}

void FlatAttention::forward(const kv::AttentionRows& rows, const kv::Stream& stream) {
  void* k_cache = cache_->k_layer(rows.layer);
  void* v_cache = cache_->v_layer(rows.layer);
  append_kv({.k = rows.k,
             .v = rows.v,
             .row_slab = row_slab_,
             .row_position = row_position_,
             .num_rows = rows.num_rows,
             .row_elements = config_.kv_width(),
             .slab_begin = slab_begin_,
             .k_cache = k_cache,
             .v_cache = v_cache},
            stream);
  DecodeAttentionArgs args = args_;
  args.q = rows.q;
  args.k_cache = k_cache;
  args.v_cache = v_cache;
  args.out = rows.out;
  fast_decode_attention(args, stream);
}

void FlatAttention::end_pass() {
  for (const SlabRows& rows : sequences_) cache_->advance(rows.slab, rows.num_rows);
  sequences_.clear();
}

std::optional<uint64_t> FlatAttention::graph_key() const {
  if (args_.max_rows_per_seq != 1) return std::nullopt;
  const auto address = [](const void* p) { return std::bit_cast<uintptr_t>(p); };
  // The first and the last layer fix all between them: another cache may begin at the address where
  // an old one did, and have other slabs.
  const int last = config_.num_layers - 1;
  const uintptr_t key[] = {address(cache_->k_layer(0)),
                           address(cache_->k_layer(last)),
                           address(cache_->v_layer(0)),
                           address(cache_->v_layer(last)),
                           address(slab_begin_),
                           address(args_.slab_begin),
                           address(args_.first_row),
                           address(args_.seq_len),
                           address(row_slab_),
                           address(row_position_),
                           address(args_.workspace),
                           static_cast<uintptr_t>(args_.num_seqs),
                           static_cast<uintptr_t>(args_.max_seq_len)};
  return kv::xxh64_of<uintptr_t>(key);
}

}  // namespace lesson02
