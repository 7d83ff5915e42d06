#pragma once

// Generation with a paged cache: a sequence takes a block when it needs one, and gives all of them
// back when it ends.

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "block_manager.h"
#include "common/model/engine.h"
#include "common/model/model.h"
#include "paged_attention_base.h"
#include "paged_kv_cache.h"
#include "paged_options.h"

namespace lesson03 {

/// All requests run together. The pool has options.num_blocks blocks, or as many as the requests of
/// a generate() need; the memory is kept for the next generate() of the same size.
class PagedEngine : public kv::Engine {
 public:
  /// Throws UserError for a block size that is no power of two up to 256.
  PagedEngine(kv::Model& model, const PagedOptions& options);

  /// Throws UserError, with both numbers, before anything is computed, if a request is longer than
  /// max_seq_len or the requests together need more blocks than the pool has. Also when it throws,
  /// every block is free afterwards.
  kv::GenerateResult generate(std::span<const kv::Request> requests,
                              const kv::TokenCallback& on_token = {}) override;

  /// Of the running or the last generate(); null before the first. May be read inside a token
  /// callback.
  const BlockManager* manager() const { return manager_ ? &*manager_ : nullptr; }
  PagedKvCache* cache() { return cache_ ? &*cache_ : nullptr; }
  /// The manager's number of a request of the running generate(); -1 if it has none any more.
  int sequence_of(size_t request) const {
    return request < sequences_.size() ? sequences_[request] : -1;
  }

 protected:
  /// How the blocks are read: here they are gathered.
  virtual std::unique_ptr<PagedAttentionBase> make_attention(const kv::ModelConfig& config,
                                                             PagedKvCache& cache) const;
  /// How many of a sequence's num_new tokens that have no slot yet go into the next pass: here all.
  virtual int tokens_of_pass(int num_new) const { return num_new; }

 private:
  void make_cache(std::span<const kv::Request> requests);
  void free_all();

  kv::Model* model_;
  PagedOptions options_;
  std::optional<PagedKvCache> cache_;
  std::unique_ptr<PagedAttentionBase> attention_;  // borrows cache_
  std::optional<BlockManager> manager_;
  std::vector<int> sequences_;  // [requests] the manager's numbers, -1: none
};

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options);

}  // namespace lesson03
