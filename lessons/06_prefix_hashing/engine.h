#pragma once

// Generation over a cache of prefixes: what an earlier request has computed is not computed again.

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kv_cache_manager.h"
#include "lessons/03_paged_blocks/paged_loop.h"

namespace lesson06 {

/// The pool and what its free blocks hold stay from one generate() to the next, unless that one
/// needs a larger pool. Requests of one generate() start together: none of them finds what another
/// one is about to compute. Further samples of a prompt start one pass later, and do.
class PrefixEngine : public lesson03::PagedLoop {
 public:
  PrefixEngine(kv::Model& model, const lesson03::PagedOptions& options, BlockHasher hasher = {},
               PrefixIndex::Check check = PrefixIndex::Check::kExact)
      : PagedLoop(model, options), hasher_(hasher), check_(check) {}

  kv::GenerateResult generate(std::span<const kv::Request> requests,
                              const kv::TokenCallback& on_token = {}) override;
  int64_t slots_to_start(std::span<const kv::Request> requests) const override;
  /// Tokens of each request of the last generate() that came from the cache.
  const std::vector<int>& num_cached_tokens() const { return num_cached_tokens_; }
  /// Null before the first generate(). Request i has the id i.
  const KvCacheManager* manager() const { return manager_ ? &*manager_ : nullptr; }

 protected:
  // Lesson 07 has another pool, and does something with blocks that are new to a request.
  virtual std::unique_ptr<CachePool> make_pool(int num_blocks);
  virtual void on_new_blocks(std::span<const int32_t>) {}

 private:
  void begin(std::span<const kv::Request> requests) override;
  std::unique_ptr<lesson03::PagedAttentionBase> make_attention(
      const kv::ModelConfig& config, lesson03::PagedKvCache& cache) const override;
  bool waits(std::span<const kv::Request> requests, size_t i) const override {
    return kv::follows_sample(requests, i);
  }
  int start(size_t i, std::span<const int32_t> tokens) override;
  const BlockTable& slots_for(size_t i, int num_tokens) override;
  void computed(size_t i, std::span<const int32_t> tokens) override;
  void end(size_t i) override { manager_->free(static_cast<int64_t>(i)); }
  InUse in_use() const override { return {pool_->num_used(), manager_->num_slots_used()}; }

  BlockHasher hasher_;
  PrefixIndex::Check check_;
  std::unique_ptr<CachePool> pool_;
  std::optional<KvCacheManager> manager_;  // borrows pool_
  std::vector<int> num_cached_tokens_;
  std::vector<BlockHashes> hashes_;  // of each request
};

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const lesson03::PagedOptions& options);

}  // namespace lesson06
