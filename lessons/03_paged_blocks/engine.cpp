#include "engine.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>

#include "common/defer.h"
#include "common/error.h"
#include "common/table.h"
#include "lessons/02_flat_cache/engine.h"

namespace lesson03 {

void check(const PagedOptions& options) {
  const int size = options.block_size;
  if (size < 1 || size > 256 || !std::has_single_bit(static_cast<unsigned>(size))) {
    kv::user_error("--block-size {}: wanted a power of two from 1 to 256, such as 16", size);
  }
  if (options.num_blocks < 0)
    kv::user_error("--num-blocks {}: wanted 0 or more", options.num_blocks);
}

int num_blocks_for(int64_t needed, const PagedOptions& options) {
  const int64_t size = options.num_blocks > 0 ? options.num_blocks : std::max<int64_t>(needed, 1);
  if (needed > size) {
    kv::user_error(
        "the requests need {} of {}, the pool has {}; generate fewer tokens or give the pool more "
        "blocks",
        kv::count_of(needed, "block"), kv::count_of(options.block_size, "token"), size);
  }
  if (needed >= INT32_MAX) kv::user_error("{} blocks are more than can be numbered", needed);
  return static_cast<int>(size);
}

int64_t blocks_needed(std::span<const kv::Request> requests, int block_size) {
  int64_t blocks = 0;
  for (const kv::Request& request : requests) {
    blocks += (kv::tokens_to_compute(request) + block_size - 1) / block_size;
  }
  return blocks;
}

void note_blocks(kv::EngineCounters& counters, const BlockManager& manager,
                 const PagedKvCache& cache) {
  const int blocks = manager.pool().num_used();
  counters.note_peak("blocks_in_use", blocks);
  kv::note_kv_bytes(counters, blocks * cache.bytes_per_block(),
                    manager.num_tokens() * cache.bytes_per_token());
}

void GatheredAttention::begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) {
  attend_ = lesson02::sizes_of(rows, config_);
  attend_.workspace = arrays.workspace(lesson02::decode_attention_workspace_bytes(attend_));
  gather_.max_blocks_per_seq = blocks_for(attend_.max_seq_len, cache_->block_size());
  gather_.num_seqs = attend_.num_seqs;
  gather_.max_seq_len = attend_.max_seq_len;
  arrays.add(slot_mapping_of(rows, tables_), write_.slot_mapping);
  arrays.add(pack_block_tables(rows, tables_, gather_.max_blocks_per_seq), gather_.block_tables);
  std::vector<int64_t> begin(rows.seq_len.size());  // where each sequence's rows go in k_ and v_
  std::exclusive_scan(rows.seq_len.begin(), rows.seq_len.end(), begin.begin(), int64_t{0});
  num_gathered_ = begin.back() + rows.seq_len.back();
  arrays.add(begin, attend_.slab_begin);  // lesson 02's kernel: where a sequence begins
  const size_t bytes = bytes_gathered() / 2 / config_.num_layers;  // K, or V
  gather_.k_out = arrays.make_room(k_, bytes);
  gather_.v_out = arrays.make_room(v_, bytes);
  attend_.num_slots = num_gathered_;
}

void GatheredAttention::forward(const kv::AttentionRows& rows, const kv::Stream& stream) {
  write_.k = rows.k;
  write_.v = rows.v;
  write_.num_rows = rows.num_rows;
  write_.cache = gather_.cache = cache_->layer(rows.layer);
  write_kv(write_, stream);

  gather_.seq_len = rows.seq_len;
  gather_.out_begin = attend_.slab_begin;
  gather_kv(gather_, stream);

  attend_.q = rows.q;
  attend_.k_cache = gather_.k_out;
  attend_.v_cache = gather_.v_out;
  attend_.out = rows.out;
  attend_.first_row = rows.first_row;
  attend_.seq_len = rows.seq_len;
  attend_.window = rows.window;
  const bool plain = rows.kernel == kv::Kernel::kPlain;
  (plain ? lesson02::decode_attention : lesson02::fast_decode_attention)(attend_, stream);
}

void PagedEngine::make_cache(std::span<const kv::Request> requests) {
  const int num_blocks = num_blocks_for(blocks_needed(requests, options_.block_size), options_);
  if (!cache_ || cache_->num_blocks() != num_blocks) {
    attention_.reset();
    cache_.reset();  // frees the old blocks before the new ones are allocated
    cache_.emplace(model_->config(), model_->stream(), num_blocks, options_.block_size);
    attention_.emplace(model_->config(), *cache_);
  }
  manager_.emplace(num_blocks, options_.block_size);
}

/// The tokens not computed yet, with slots: the prompts at first, then one per request.
kv::PassRows PagedEngine::next_rows(const kv::Generation& generation) {
  kv::PassRows rows;
  BlockTables tables;
  for (const auto& [seq, table] : manager_->tables()) {
    const std::span<const int32_t> known = generation.tokens(seq);
    const int computed = table.num_tokens();
    if (!manager_->extend(seq, static_cast<int>(known.size()) - computed)) {
      throw std::logic_error("the pool was checked to hold this");
    }
    rows.add(seq, known, computed);
    tables.push_back(&table);
  }
  attention_->set_tables(std::move(tables));
  return rows;
}

kv::GenerateResult PagedEngine::generate(std::span<const kv::Request> requests,
                                         const kv::TokenCallback& on_token) {
  kv::Generation generation(requests, model_->config(), on_token);
  kv::check_seq_len_limit(requests, options_.engine.max_seq_len);
  kv::GenerateResult result;
  kv::PassTimer timer;
  make_cache(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    const int seq = manager_->add_sequence();  // i, as the manager is new
    if (!generation.active(i)) manager_->free_sequence(seq);
  }
  const kv::Defer free_all{[this] {
    while (!manager_->tables().empty()) manager_->free_sequence(manager_->tables().begin()->first);
  }};
  while (generation.any_active()) {
    const kv::PassRows rows = next_rows(generation);
    const std::span<const float> logits = model_->forward(rows, *attention_);
    result.counters.kv_bytes_copied += attention_->bytes_gathered();
    note_blocks(result.counters, *manager_, *cache_);
    generation.accept(rows, logits);
    for (const size_t i : rows.requests) {
      if (!generation.active(i)) manager_->free_sequence(static_cast<int>(i));
    }
    timer.end_pass(rows.num_rows(), rows.num_seqs(), result);
  }
  result.completions = generation.completions();
  return result;
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options) {
  return std::make_unique<PagedEngine>(model, options);
}

}  // namespace lesson03
