#include "instruments/replay/caches.h"

#include <algorithm>
#include <vector>

#include "instruments/replay/set_caches.h"
#include "lessons/07_lru_eviction/block_pool.h"

namespace replay {

IdKey::IdKey(uint64_t id)
    // Neighbouring ids, which are used together, get neighbouring hashes. High bits count, too.
    : hash(id + (id >> 12) * 0x9E3779B97F4A7C15u),
      tokens{static_cast<int32_t>(id & 0xFFFFFFFFu), static_cast<int32_t>(id >> 32)} {}

namespace {

/// Lesson 07's own pool. The trace's id stands for the block's hash and its tokens.
class LruCache final : public Cache {
 public:
  explicit LruCache(int num_blocks)
      : Cache(num_blocks),
        pool_(num_blocks, IdKey::kTokens),
        blocks_(static_cast<size_t>(num_blocks)) {}
  void check() const override { pool_.check(); }

 protected:
  int64_t serve(std::span<const uint64_t> ids, int64_t) override {
    std::optional<lesson06::PrefixId> parent;
    size_t found = 0;
    for (; found < ids.size(); ++found) {
      const lesson06::CachedBlock* const match = pool_.index().find(IdKey(ids[found]).key(parent));
      if (match == nullptr) break;
      blocks_[found] = match->id;
      parent = match->prefix;
    }
    const auto blocks = std::span(blocks_).first(ids.size());
    pool_.touch(blocks.first(found));  // pinned, before anything else is taken
    pool_.get_new_blocks(blocks.subspan(found));
    for (size_t i = found; i < ids.size(); ++i) {
      parent = pool_.cache_full_block(blocks[i], IdKey(ids[i]).key(parent));
    }
    pool_.free_blocks(blocks);
    count_evicted(pool_.metrics().num_evicted);
    return static_cast<int64_t>(found);
  }

 private:
  lesson07::BlockPool pool_;
  std::vector<int32_t> blocks_;  // [num_blocks], of which a request uses the first ones
};

}  // namespace

int64_t Cache::run(std::span<const uint64_t> ids) {
  const auto all = std::ssize(ids);
  const auto length = std::min<int64_t>(all, num_blocks_);
  const int64_t evicted = counts_.evicted;
  const int64_t found = serve(ids.first(static_cast<size_t>(length)), position_);
  position_ += all;
  counts_.asked += all;
  counts_.found += found;
  counts_.too_long += all > num_blocks_;
  const int64_t looked_up = std::min(found + 1, length), computed = length - found;
  counts_.operations +=
      looked_up + found + computed + (counts_.evicted - evicted) + computed + length;
  return found;
}

std::unique_ptr<Cache> make_cache(Victim victim, int num_blocks, uint64_t seed,
                                  const NextUses* next_uses) {
  switch (victim) {
    case Victim::kLru:
      return std::make_unique<LruCache>(num_blocks);
    case Victim::kFifo:
      return std::make_unique<FifoCache>(num_blocks);
    case Victim::kRandom:
      return std::make_unique<RandomCache>(num_blocks, seed);
    case Victim::kOptimal:
      return std::make_unique<OptimalCache>(num_blocks, *next_uses);
  }
  return nullptr;
}

}  // namespace replay
