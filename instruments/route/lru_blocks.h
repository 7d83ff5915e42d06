#pragma once

// The blocks of a pool with LRU eviction, by their hashes: the cache of a simulated server, or what
// a router remembers of the prompts that it has sent.

#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>

namespace route {

/// The number of first blocks for which has(block) is true.
int64_t length_of_run(std::span<const uint64_t> blocks, const auto& has) {
  int64_t length = 0;
  for (const uint64_t block : blocks) {
    if (!has(block)) break;
    ++length;
  }
  return length;
}

class LruBlocks {
 public:
  explicit LruBlocks(int64_t capacity) : capacity_(capacity) {}
  LruBlocks(LruBlocks&&) = default;  // no copies: places_ points into order_

  int64_t num_blocks() const { return std::ssize(places_); }
  bool has(uint64_t block) const { return places_.contains(block); }
  /// The number of first blocks of a prompt that are there.
  int64_t num_found(std::span<const uint64_t> prompt) const {
    return length_of_run(prompt, [&](uint64_t block) { return has(block); });
  }
  /// Stores a prompt, as far as it fits. Its tail will be evicted before its head, as lesson 07's
  /// pool does it.
  void use(std::span<const uint64_t> prompt);

 private:
  int64_t capacity_;
  std::list<uint64_t> order_;  // the next to be evicted comes first
  std::unordered_map<uint64_t, std::list<uint64_t>::iterator> places_;
};

}  // namespace route
