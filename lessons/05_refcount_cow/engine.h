#pragma once

// Generation over shared blocks: plain requests, n samples of one prompt, and beam search.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "block_manager.h"
#include "block_regions.h"
#include "lessons/03_paged_blocks/engine.h"
#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "lessons/04_paged_attention/paged_cache_attention.h"
#include "qwen3/beam_search.h"
#include "qwen3/generation.h"

namespace lesson05 {

/// Owns a pool of blocks and the sequences in it. Every call leaves all blocks free, also when it
/// throws. Throws UserError, with both numbers, for requests that the pool can never hold.
class SharingEngine : public kv::Engine {
 public:
  SharingEngine(kv::Model& model, const lesson03::PagedOptions& options);

  /// The samples of one request (kv::samples_of) share its prompt, which runs once and is then
  /// forked. The bits are those of requests that share nothing.
  kv::GenerateResult generate(std::span<const kv::Request> requests,
                              const kv::TokenCallback& on_token = {}) override;
  int64_t slots_to_start(std::span<const kv::Request> requests) const override;
  /// The best continuations of a prompt (see kv::BeamSearch). request.sampling is not used.
  kv::BeamSearchResult beam_search(const kv::Request& request, const kv::BeamSearchParams& params,
                                   const kv::BeamCallback& on_step = {});

  /// The manager and cache of the running or the last call; null before the first. May be read
  /// inside a callback.
  const BlockManager* manager() const { return manager_ ? &*manager_ : nullptr; }
  lesson03::PagedKvCache* cache() { return cache_ ? &*cache_ : nullptr; }
  /// The manager's number of request, sample or beam i of the running call; -1 if it has none.
  int sequence_of(size_t i) const { return i < sequences_.size() ? sequences_[i] : -1; }

 private:
  void make_cache(std::span<const kv::Request> requests);
  void accept_prompts(std::span<const kv::Request> requests, std::span<const float> logits,
                      kv::Generation& generation, kv::EngineCounters& counters);
  template <class TokensOf>
  std::span<const float> forward(const TokensOf& tokens, kv::EngineCounters& counters);
  void continue_from(std::span<const size_t> parents, kv::EngineCounters& counters);
  void note_blocks(kv::EngineCounters& counters) const;
  void free_all();

  kv::Model* model_;
  lesson03::PagedOptions options_;
  std::optional<lesson03::PagedKvCache> cache_;
  std::optional<BlockRegions> regions_;                     // of cache_
  std::optional<BlockManager> manager_;                     // copies inside regions_
  std::optional<lesson04::PagedCacheAttention> attention_;  // borrows cache_
  kv::PassRows rows_;                                       // of the running pass
  std::vector<int> sequences_;                              // the manager's numbers; -1 means none
};

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const lesson03::PagedOptions& options);

}  // namespace lesson05
