#include "paged_cache_attention.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "common/base/error.h"
#include "common/base/hash.h"
#include "kernels/attention/contract.h"
#include "lessons/03_paged_blocks/write_kv.h"

namespace lesson04 {

using kv::attention::kGroupTokens;
using kv::attention::kMaxHeadDim;
using lesson03::blocks_for;
using lesson03::write_kv;

PagedCacheAttention::PagedCacheAttention(const kv::ModelConfig& config, const kv::Stream& stream,
                                         const PagedKvCache& cache, ComputeSlots compute_slots)
    : config_(config), stream_(&stream), cache_(&cache), compute_slots_(compute_slots) {
  if (config.head_dim > kMaxHeadDim) {
    kv::user_error("this model has head_dim {}, the attention kernels serve up to {}",
                   config.head_dim, kMaxHeadDim);
  }
  const int size = cache.block_size();
  if (size > kMaxBlockSize || !std::has_single_bit(static_cast<unsigned>(size))) {
    kv::user_error("block size {}: the attention kernels want a power of two from 1 to {}", size,
                   kMaxBlockSize);
  }
}

void PagedCacheAttention::begin_pass(std::span<const PagedRows> sequences) {
  args_ = {};
  args_.num_seqs = static_cast<int>(sequences.size());
  args_.num_heads = config_.num_heads;
  args_.cache = cache_->layer(0);  // its sizes; forward() sets the layer
  int longest = 0;
  for (const PagedRows& rows : sequences) {
    args_.num_rows += rows.num_rows;
    args_.max_rows_per_seq = std::max(args_.max_rows_per_seq, rows.num_rows);
    longest = std::max(longest, rows.table->num_tokens());
  }
  // Whole groups: the grid and the tables' width, and with them a replayed graph, stay for as many
  // steps. No sequence outgrows the pool.
  const int64_t groups = (int64_t{longest} + kGroupTokens - 1) / kGroupTokens;
  const int64_t pool_tokens = int64_t{cache_->num_blocks()} * cache_->block_size();
  args_.max_seq_len = static_cast<int>(std::min(groups * kGroupTokens, pool_tokens));
  args_.max_blocks_per_seq = blocks_for(args_.max_seq_len, cache_->block_size());
  upload_metadata(sequences);
  make_workspace();
}

void PagedCacheAttention::upload_metadata(std::span<const PagedRows> sequences) {
  constexpr size_t kSlotWords = sizeof(int64_t) / sizeof(int32_t);
  const size_t slot_words = static_cast<size_t>(args_.num_rows) * kSlotWords;
  metadata_.assign(slot_words, 0);
  metadata_.push_back(0);
  for (const PagedRows& rows : sequences) metadata_.push_back(metadata_.back() + rows.num_rows);
  for (const PagedRows& rows : sequences) metadata_.push_back(rows.table->num_tokens());
  lesson03::pack_block_tables(sequences, args_.max_blocks_per_seq, metadata_);
  if (!compute_slots_) {
    const std::vector<int64_t> slots = lesson03::slot_mapping_of(sequences);
    std::memcpy(metadata_.data(), slots.data(), slots.size() * sizeof(int64_t));
  }

  const size_t bytes = metadata_.size() * sizeof(int32_t);
  if (device_metadata_.bytes() < bytes) {
    device_metadata_ = kv::DeviceBuffer(stream_->device(), bytes);
  }
  auto* const device = device_metadata_.as<int32_t>();
  const size_t skip = compute_slots_ ? slot_words : 0;
  kv::copy_to_device_async(device + skip, metadata_.data() + skip, bytes - skip * sizeof(int32_t),
                           *stream_);

  auto* const slot_mapping = device_metadata_.as<int64_t>();
  slot_mapping_ = slot_mapping;
  args_.first_row = device + slot_words;
  args_.seq_len = args_.first_row + sequences.size() + 1;
  args_.block_tables = args_.seq_len + sequences.size();
  if (compute_slots_) compute_slots_(args_, slot_mapping, *stream_);
}

void PagedCacheAttention::make_workspace() {
  if (stream_->device() == kv::Device::kCpu) return;
  const size_t bytes = paged_attention_workspace_bytes(args_);
  if (workspace_.bytes() < bytes) {
    workspace_ = kv::DeviceBuffer(stream_->device(), bytes);
    kv::fill_bytes(workspace_.data(), 0, bytes, *stream_);
  }
  args_.workspace = workspace_.data();
}

PagedAttentionArgs PagedCacheAttention::args_of(const kv::AttentionRows& rows) const {
  PagedAttentionArgs args = args_;
  args.q = rows.q;
  args.out = rows.out;
  args.cache = cache_->layer(rows.layer);
  return args;
}

void PagedCacheAttention::forward(const kv::AttentionRows& rows, const kv::Stream& stream) {
  const PagedAttentionArgs args = args_of(rows);
  write_kv({.k = rows.k,
            .v = rows.v,
            .slot_mapping = slot_mapping_,
            .num_rows = rows.num_rows,
            .cache = args.cache},
           stream);
  fast_paged_attention(args, stream);
}

std::optional<uint64_t> PagedCacheAttention::graph_key() const {
  if (args_.max_rows_per_seq != 1) return std::nullopt;
  const auto address = [](const void* p) { return std::bit_cast<uintptr_t>(p); };
  // The first and the last layer fix all between them. Everything that a launch gets by value is
  // part of the key too: another cache may begin at the address where an old one did.
  const KvBlocks first = cache_->layer(0);
  const KvBlocks last = cache_->layer(config_.num_layers - 1);
  const uintptr_t key[] = {address(first.k),
                           address(first.v),
                           address(last.k),
                           address(last.v),
                           address(first.k_block),
                           address(first.v_block),
                           address(last.k_block),
                           address(last.v_block),
                           static_cast<uintptr_t>(first.num_blocks),
                           static_cast<uintptr_t>(first.block_size),
                           address(slot_mapping_),
                           address(args_.first_row),
                           address(args_.seq_len),
                           address(args_.block_tables),
                           static_cast<uintptr_t>(args_.max_blocks_per_seq),
                           address(args_.workspace),
                           static_cast<uintptr_t>(args_.num_seqs),
                           static_cast<uintptr_t>(args_.max_seq_len)};
  return kv::xxh64_of<uintptr_t>(key);
}

}  // namespace lesson04
