#pragma once

// Requests in words on a KvCacheManager, and what their blocks really hold: the page of lesson 06
// without a picture.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kv_cache_manager.h"
#include "viz/names.h"

namespace lesson06 {

/// Every request is served at once: looked up, given its slots, written, cached.
class WordCache {
 public:
  struct Settings {
    int num_blocks = 24;
    int block_size = 4;
    int bits = 64;  // of the hash
    bool exact = true;
  };
  struct Request : viz::SequenceView {
    int64_t id = 0;  // the manager's
    int num_cached_tokens = 0;
    std::vector<int32_t> tokens;
  };

  /// A block with the hash that a lookup wanted, as it was then.
  struct Candidate {
    int32_t block_id = 0;
    std::optional<PrefixId> parent;
    std::vector<int32_t> tokens;
    bool is_same = false;  // tokens and parent are those that were wanted
  };
  /// A link of a lookup's walk along a request's chain.
  struct Step {
    std::optional<PrefixId> parent;     // that was matched
    std::vector<Candidate> candidates;  // up to the one that was taken
    bool found = false;                 // the last one was taken
  };

  explicit WordCache(const Settings& settings);

  // Each says in plain words what it did, and throws UserError if it cannot: nothing has changed
  // then.
  std::string ask(const std::string& name, std::vector<int32_t> tokens);
  std::string free(const std::string& name);
  std::vector<int32_t> tokens(const std::string& text) { return vocabulary_.tokens(text); }

  const Settings& settings() const { return settings_; }
  const KvCacheManager& manager() const { return *manager_; }
  int64_t num_refused() const { return num_refused_; }  // candidates with another content
  /// What the last ask() has looked up, link by link, up to the first that was not found.
  const std::vector<Step>& walk() const { return walk_; }
  const viz::NamedList<Request>& requests() const { return requests_; }
  const viz::Vocabulary& vocabulary() const { return vocabulary_; }
  /// Block `index` of the request holds K and V of another prefix than the request's.
  bool is_wrong(const Request& request, int index) const;
  int num_wrong(const Request& request) const;
  int num_wrong() const;

  /// Throws std::logic_error unless the manager's counts are right, and, if the check is exact, no
  /// block is wrong.
  void check() const;

 private:
  std::vector<Step> walk_of(std::span<const int32_t> tokens, const ComputedBlocks& computed) const;

  Settings settings_;
  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<KvCacheManager> manager_;  // borrows the pool
  viz::NamedList<Request> requests_{"request", 8};
  std::vector<std::vector<int32_t>> written_;  // [num_blocks] token 0 up to the end of the block
  viz::Vocabulary vocabulary_;
  std::vector<Step> walk_;
  int64_t next_id_ = 0;
  int64_t num_refused_ = 0;
  int64_t last_refused_ = 0;  // of the last lookup
};

/// The first block that both forged requests have, and their own second ones (see forgery.h; these
/// are legal ids of Qwen3's vocabulary).
std::vector<int32_t> forged_prompt(bool second);

}  // namespace lesson06
