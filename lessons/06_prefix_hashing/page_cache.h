#pragma once

// Requests in words on a BlockManager, and what their blocks really hold: the page of lesson 06
// without a picture.

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "block_manager.h"

namespace lesson06 {

/// A token is a word here. Every request is served at once: looked up, given its slots, written,
/// published.
class WordCache {
 public:
  static constexpr int kMaxRequests = 8;
  static constexpr int kMaxBlocks = 1024;
  struct Settings {
    int num_blocks = 24;
    int block_size = 4;
    int bits = 64;  // of the hash
    bool exact = true;
  };
  struct Request {
    int seq = 0;  // the manager's
    int hue = 0;
    int num_cached_tokens = 0;
    std::vector<int32_t> tokens;
  };

  /// Throws UserError for settings that cannot be.
  explicit WordCache(const Settings& settings);

  // Each says in plain words what it did, and throws UserError if it cannot: no request has changed
  // then. (An `ask` without room counts as asked.)
  std::string ask(const std::string& name, const std::string& text);
  std::string ask(const std::string& name, std::vector<int32_t> tokens);
  std::string free(const std::string& name);

  const Settings& settings() const { return settings_; }
  const BlockManager& manager() const { return *manager_; }
  const std::map<std::string, Request>& requests() const { return requests_; }
  std::vector<std::string> names() const;  // by age
  std::string free_name() const;
  std::string why_not_ask() const;
  std::string word(int32_t token) const;
  /// Token 0 up to the end of what is written in the block.
  const std::vector<int32_t>& written(int32_t block_id) const;
  /// Block `index` of the request holds K and V of another prefix than the request's.
  bool is_wrong(const Request& request, int index) const;
  int num_wrong() const;

  /// Throws std::logic_error unless the books are right, and, if the check is exact, no block is
  /// wrong.
  void check() const;

 private:
  int32_t token_of(const std::string& word);

  Settings settings_;
  std::unique_ptr<BlockManager> manager_;
  std::map<std::string, Request> requests_;
  std::vector<std::vector<int32_t>> written_;  // [num_blocks]
  std::map<std::string, int32_t> tokens_;
  std::vector<std::string> words_;  // by token
};

/// The first block that both forged requests have, and their own second ones (see forgery.h; these
/// are legal ids of Qwen3's vocabulary).
std::vector<int32_t> forged_prompt(bool second);

}  // namespace lesson06
