#pragma once

// The page of lesson 06 without a picture: requests in words on a KvCacheManager, and the true
// content of their blocks.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kv_cache_manager.h"
#include "viz/word_requests.h"

namespace lesson06 {

struct CacheSettings {
  int num_blocks = 24;
  int block_size = 4;
  int bits = 64;            // of the hash
  bool trust_hash = false;  // equal hashes are enough; else tokens and parents are compared
};

/// A block that has the hash which was looked up.
struct Candidate {
  int32_t id = 0;
  std::string after;  // the prefix that it was computed after
  std::vector<std::string> words;
  bool is_same = false;  // tokens and parent are those that were wanted
};
/// The comparison at a link for which a lookup found blocks with other tokens or another parent.
struct Comparison {
  size_t link = 0;
  std::string after;
  std::vector<Candidate> candidates;  // up to the one that was taken
  bool trusted = false;               // the last one was taken despite other content
};

/// Every request is served at once: looked up, given its slots, written, cached.
class WordCache {
 public:
  using Requests = viz::WordRequests<KvCacheManager, BlockHashes>;
  using Request = Requests::Request;

  /// Borrows the vocabulary.
  WordCache(const CacheSettings& settings, const viz::Vocabulary& vocabulary);

  // Each says in plain words what it did. Throws UserError, and changes nothing, if it cannot.
  std::string ask(const std::string& name, std::vector<int32_t> tokens);
  std::string free(const std::string& name) {
    requests_.free(manager_, name);
    return fmt::format("free {}: its full blocks can still be found", name);
  }

  const KvCacheManager& manager() const { return manager_; }
  const Requests& asked() const { return requests_; }
  int64_t num_refused() const { return num_refused_; }  // candidates with another content
  /// The last comparison of the last ask(); no value if every candidate was the wanted block.
  const std::optional<Comparison>& comparison() const { return lookup_.comparison; }
  /// Block `index` of the request holds K and V of another prefix than the request's.
  bool is_wrong(const Request& request, int index) const;
  int num_wrong(const Request& request) const;
  int num_wrong() const;

  /// Throws std::logic_error unless the manager's counts are right, and no block is wrong if
  /// tokens are compared.
  void check() const;

 private:
  struct Lookup {
    size_t num_found = 0;                     // blocks
    int64_t num_refused = 0, num_others = 0;  // candidates: as the manager says, and as walk() met
    std::optional<Comparison> comparison = {};
  };
  Lookup walk(std::span<const int32_t> tokens, const ComputedBlocks& computed) const;

  CacheSettings settings_;
  const viz::Vocabulary* vocabulary_;
  BlockPool pool_;
  KvCacheManager manager_;  // borrows the pool
  Requests requests_{8};
  std::vector<std::vector<int32_t>> written_;  // [num_blocks] token 0 up to the end of the block
  Lookup lookup_;                              // the last one
  int64_t num_refused_ = 0;
};

/// The first block that both forged requests have, and their own second ones (see forgery.h; these
/// are legal ids of Qwen3's vocabulary).
std::vector<int32_t> forged_prompt(bool second);

}  // namespace lesson06
