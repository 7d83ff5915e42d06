#pragma once

// Generation with a paged cache: a sequence takes a block when it needs one, and gives all of them
// back when it ends.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "block_manager.h"
#include "lessons/02_flat_cache/decode_attention.h"
#include "paged_kv_cache.h"
#include "qwen3/attention.h"
#include "qwen3/engine.h"
#include "qwen3/generation.h"
#include "qwen3/model.h"

namespace lesson03 {

struct PagedOptions {
  int block_size = 16;  // tokens per KV block, a power of two up to 256
  int num_blocks = 0;   // blocks of the pool; 0 means just enough for the requests of a generate()
  kv::EngineOptions engine{};
};

/// Throws UserError for options that make no sense.
void check(const PagedOptions& options);

/// The number of blocks that all requests together need at their full length.
int64_t blocks_needed(std::span<const kv::Request> requests, int block_size);

/// The number of blocks of a pool for this work: options.num_blocks, or by default `needed`.
/// Throws UserError, with both numbers, if that is too few, or more than can be numbered.
int num_blocks_for(int64_t needed, const PagedOptions& options);

/// The first way to attend over blocks: gather each sequence's K and V, then call lesson 02's
/// kernel. Right, simple, and three times the traffic. Borrows the cache.
class GatheredAttention : public kv::Attention {
 public:
  GatheredAttention(const kv::ModelConfig& config, PagedKvCache& cache)
      : config_(config), cache_(&cache) {}

  /// The tables of the next pass's sequences, which have slots for all of its rows.
  void set_tables(BlockTables tables) { tables_ = std::move(tables); }
  void begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) override;
  void forward(const kv::AttentionRows& rows, const kv::Stream& stream) override;
  /// Bytes of K and V that the last pass gathered, in all layers.
  int64_t bytes_gathered() const { return num_gathered_ * cache_->bytes_per_token(); }

 private:
  kv::ModelConfig config_;
  PagedKvCache* cache_;
  BlockTables tables_;
  int64_t num_gathered_ = 0;  // tokens of this pass's sequences

  kv::DeviceBuffer k_, v_;  // [num_gathered, num_kv_heads, head_dim]: of one layer, used by all
  // Arguments of the three kernels; forward() adds the fields that differ by layer.
  WriteKvArgs write_;
  GatherKvArgs gather_;
  lesson02::DecodeAttentionArgs attend_;
};

/// All requests run together. The memory is kept for the next generate() of the same size. After a
/// generate(), also one that throws, every block is free.
class PagedEngine : public kv::Engine {
 public:
  PagedEngine(kv::Model& model, const PagedOptions& options) : model_(&model), options_(options) {
    check(options);
  }

  /// Throws UserError, with both numbers, before anything is computed, if the requests do not fit.
  kv::GenerateResult generate(std::span<const kv::Request> requests,
                              const kv::TokenCallback& on_token = {}) override;
  int64_t slots_to_start(std::span<const kv::Request> requests) const override {
    return blocks_needed(requests, options_.block_size) * options_.block_size;
  }

  // Null before the first generate(). May be read inside a token callback. A request's sequence has
  // the request's number, and is gone when the request has ended.
  PagedKvCache* cache() { return cache_ ? &*cache_ : nullptr; }
  const BlockManager* manager() const { return manager_ ? &*manager_ : nullptr; }

 private:
  void make_cache(std::span<const kv::Request> requests);
  kv::PassRows next_rows(const kv::Generation& generation);

  kv::Model* model_;
  PagedOptions options_;
  std::optional<PagedKvCache> cache_;
  std::optional<GatheredAttention> attention_;  // borrows cache_
  std::optional<BlockManager> manager_;
};

/// Records the memory in use if it is a new peak.
void note_blocks(kv::EngineCounters& counters, const BlockManager& manager,
                 const PagedKvCache& cache);

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options);

}  // namespace lesson03
