#pragma once

// The policies that LRU is compared with. A block is found by its id alone. A block that was cut
// off, because a block before it was evicted, is found again once that one is computed again.

#include <array>
#include <deque>
#include <random>
#include <utility>
#include <vector>

#include "instruments/replay/caches.h"
#include "lessons/06_prefix_hashing/prefix_index.h"

namespace replay {

/// A trace's id as a key of lesson 06's index: the id stands for the hash and for the tokens.
struct IdKey {
  static constexpr int kTokens = 2;  // 32 bits each
  uint64_t hash;
  std::array<int32_t, kTokens> tokens;

  explicit IdKey(uint64_t id);
  lesson06::BlockKey key(std::optional<lesson06::PrefixId> parent = {}) const& {
    return {.hash = hash, .parent = parent, .tokens = tokens, .extra_keys = {}};
  }
};

class SetCache : public Cache {
 public:
  explicit SetCache(int num_blocks);
  void check() const override { index_.check(); }

 protected:
  int64_t serve(std::span<const uint64_t> ids, int64_t position) override;
  bool is_pinned(int32_t slot) const { return pinned_by_[static_cast<size_t>(slot)] == request_; }
  int num_used() const { return num_used_; }

  /// The slot to forget, one that is not pinned. All are in use.
  virtual int32_t victim() = 0;
  virtual void on_stored(int32_t) {}
  /// All blocks of a request are in these slots now.
  virtual void on_served(std::span<const int32_t>, int64_t) {}

 private:
  lesson06::PrefixIndex index_;
  std::vector<int64_t> pinned_by_;  // [num_blocks] the last request that used it
  std::vector<int32_t> slots_;      // of the blocks of this request; -1: none
  int64_t request_ = 0;
  int64_t num_evicted_ = 0;
  int num_used_ = 0;
};

/// Those that are stored together go in the order tail before head.
class FifoCache final : public SetCache {
 public:
  using SetCache::SetCache;

 protected:
  int32_t victim() override;
  void on_stored(int32_t slot) override { order_.push_back(slot); }
  void on_served(std::span<const int32_t>, int64_t) override;

 private:
  std::deque<int32_t> order_;    // slots, the one stored longest ago in front
  std::vector<int32_t> passed_;  // pinned, so they keep their places
};

class RandomCache final : public SetCache {
 public:
  RandomCache(int num_blocks, uint64_t seed) : SetCache(num_blocks), rng_(seed) {}

 protected:
  int32_t victim() override;

 private:
  std::mt19937_64 rng_;
};

/// Belady's rule. What is used again later is deeper in a prefix or belongs to a later request,
/// so it never takes a head before its tail.
class OptimalCache final : public SetCache {
 public:
  OptimalCache(int num_blocks, const NextUses& next_uses);

 protected:
  int32_t victim() override;
  void on_served(std::span<const int32_t> slots, int64_t position) override;

 private:
  void rebuild();

  const NextUses* next_uses_;
  std::vector<int64_t> next_;  // [num_blocks] next use of what is in the slot
  std::vector<std::pair<int64_t, int32_t>>
      heap_;  // the farthest first; old entries are passed over
};

}  // namespace replay
