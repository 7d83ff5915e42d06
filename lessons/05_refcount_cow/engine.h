#pragma once

// Generation over shared blocks: plain requests, n samples of one prompt, and beam search.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "block_manager.h"
#include "common/model/beam_search.h"
#include "common/model/engine.h"
#include "common/model/generation.h"
#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "lessons/03_paged_blocks/paged_options.h"
#include "lessons/04_paged_attention/paged_cache_attention.h"

namespace lesson05 {

struct BeamSearchResult : kv::GenerateResult {  // without completions
  std::vector<kv::Beam> beams;                  // best first, num_beams of them or fewer
};

/// Called after every step with the live hypotheses, best first. sequence_of(i) is that of
/// beams[i], whose last token has no slot yet. Returning false ends the search.
using BeamCallback = std::function<bool(std::span<const kv::Beam> beams)>;

/// Owns a pool of blocks and the sequences in it. Every call leaves the pool without a used block,
/// also when it throws; it throws UserError, with both numbers, for what the pool can never hold.
class SharingEngine : public kv::Engine {
 public:
  SharingEngine(kv::Model& model, const lesson03::PagedOptions& options);

  kv::GenerateResult generate(std::span<const kv::Request> requests,
                              const kv::TokenCallback& on_token = {}) override;
  /// n continuations of one prompt: it is computed once, then forked. Sample i draws with seed
  /// sampling.seed + i, and has the bits that n requests with these seeds would have.
  kv::GenerateResult sample(const kv::Request& request, int n,
                            const kv::TokenCallback& on_token = {});
  /// The best continuations of a prompt by the sum of log probabilities (see kv::BeamSearch).
  /// `request.sampling` is not used.
  BeamSearchResult beam_search(const kv::Request& request, const kv::BeamSearchParams& params,
                               const BeamCallback& on_step = {});

  /// Of the running or the last call; null before the first. May be read inside a callback.
  const BlockManager* manager() const { return manager_ ? &*manager_ : nullptr; }
  const lesson03::PagedKvCache* cache() const { return cache_ ? &*cache_ : nullptr; }
  /// The manager's number of request, sample or beam i of the running call; -1 if it has none.
  int sequence_of(size_t i) const { return i < sequences_.size() ? sequences_[i] : -1; }
  /// Most blocks that the running or the last call would have used without sharing.
  int64_t peak_blocks_without_sharing() const { return peak_without_sharing_; }

 private:
  struct Pass;
  void make_cache(int64_t blocks_needed);
  kv::GenerateResult run(std::span<const kv::Request> requests, bool one_prompt,
                         const kv::TokenCallback& on_token);
  void add_rows(Pass& pass, size_t i, std::span<const int32_t> tokens) const;
  std::span<const float> forward(const Pass& pass, kv::EngineCounters& counters);
  void continue_from(std::span<const size_t> parents, kv::EngineCounters& counters);
  void note_blocks(kv::EngineCounters& counters);
  void free_all();

  kv::Model* model_;
  lesson03::PagedOptions options_;
  std::optional<lesson03::PagedKvCache> cache_;
  std::optional<BlockManager> manager_;                     // copies inside cache_
  std::optional<lesson04::PagedCacheAttention> attention_;  // borrows cache_
  kv::DeviceBuffer copy_scratch_;                           // see CopyBlocksArgs
  std::vector<int> sequences_;                              // the manager's numbers, -1: none
  int64_t peak_without_sharing_ = 0;
};

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const lesson03::PagedOptions& options);

}  // namespace lesson05
