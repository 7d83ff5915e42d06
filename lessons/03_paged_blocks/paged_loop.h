#pragma once

// The loop of generation with blocks, which later lessons share: every pass takes the tokens that
// are known and not computed. Who hands out the blocks, and how they are read, a lesson says.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/model/engine.h"
#include "common/model/generation.h"
#include "common/model/model.h"
#include "paged_attention_base.h"
#include "paged_kv_cache.h"
#include "program/paged_options.h"

namespace lesson03 {

/// All requests run together. Sequence i is request i; it is started once and ended once, also when
/// something throws.
class PagedLoop : public kv::Engine {
 public:
  /// Throws UserError for a block size that is no power of two up to 256.
  PagedLoop(kv::Model& model, const PagedOptions& options) : model_(&model), options_(options) {
    check(options);
  }

  /// Throws UserError, with both numbers, before anything is computed, if a request is longer than
  /// max_seq_len or the requests together need more blocks than the pool has.
  kv::GenerateResult generate(std::span<const kv::Request> requests,
                              const kv::TokenCallback& on_token = {}) override;
  int64_t slots_to_start(std::span<const kv::Request> requests) const override {
    return blocks_needed(requests, options_.block_size) * options_.block_size;
  }

  /// Null before the first generate(). May be read inside a token callback.
  PagedKvCache* cache() { return attention_ ? &*cache_ : nullptr; }

 protected:
  // What a lesson says:
  /// A generate() begins: make_cache() and a manager for it, unless the last ones will do.
  virtual void begin(std::span<const kv::Request> requests) = 0;
  virtual std::unique_ptr<PagedAttentionBase> make_attention(const kv::ModelConfig& config,
                                                             PagedKvCache& cache) const = 0;
  /// Whether sequence i begins one pass later, to find what the first pass computes.
  virtual bool waits(std::span<const kv::Request> /*requests*/, size_t /*i*/) const {
    return false;
  }
  /// Sequence i begins with these tokens. Returns how many of them are computed already.
  virtual int start(size_t i, std::span<const int32_t> tokens) = 0;
  /// The table of sequence i, with slots for num_tokens tokens.
  virtual const BlockTable& slots_for(size_t i, int num_tokens) = 0;
  /// The pass has written K and V of these tokens of sequence i, its first ones.
  virtual void computed(size_t /*i*/, std::span<const int32_t> /*tokens*/) {}
  /// Sequence i gives its blocks back.
  virtual void end(size_t i) = 0;
  /// Blocks that sequences hold, and slots in them that have a token.
  struct InUse {
    int64_t blocks, tokens;
  };
  virtual InUse in_use() const = 0;
  /// Most tokens of one sequence in a pass.
  virtual int max_rows_per_seq() const { return INT32_MAX; }

  /// The memory of a pool of so many blocks, in place of the last one.
  void make_cache(int num_blocks);
  kv::Model& model() { return *model_; }
  const PagedOptions& options() const { return options_; }

 private:
  kv::PassRows next_rows(const kv::Generation& generation, std::vector<int>& num_computed);

  kv::Model* model_;
  PagedOptions options_;
  std::optional<PagedKvCache> cache_;
  std::unique_ptr<PagedAttentionBase> attention_;  // borrows cache_
};

}  // namespace lesson03
