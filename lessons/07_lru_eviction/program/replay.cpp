#include "replay.h"

#include <algorithm>
#include <memory>
#include <random>

namespace lesson07 {
namespace {

size_t at(int32_t id) { return static_cast<size_t>(id); }

/// Free blocks in a plain list, in the order in which they were freed, for policies that look at
/// all of them.
class ListPool final : public lesson06::CachePool {
 public:
  ListPool(int num_blocks, int block_size, Policy policy)
      : policy_(policy),
        index_(num_blocks, block_size),
        ref_cnt_(at(num_blocks)),
        stored_at_(at(num_blocks)) {
    for (int32_t id = 0; id < num_blocks; ++id) free_.push_back(id);
  }
  int num_blocks() const override { return index_.num_ids(); }
  int num_free() const override { return static_cast<int>(free_.size()); }
  int ref_cnt(int32_t id) const override { return ref_cnt_[at(id)]; }
  const PrefixIndex& index() const override { return index_; }
  void check() const override { index_.check(); }

  bool get_new_blocks(std::span<int32_t> ids) override {
    if (ids.size() > free_.size()) return false;
    ++clock_;
    for (int32_t& id : ids) {
      const auto victim = policy_ == Policy::kFifo
                              ? stored_longest_ago()
                              : free_.begin() + static_cast<std::ptrdiff_t>(rng_() % free_.size());
      id = *victim;
      free_.erase(victim);
      index_.erase(id);
      ref_cnt_[at(id)] = 1;
    }
    return true;
  }
  void touch(std::span<const int32_t> ids) override {
    for (const int32_t id : ids) {
      if (ref_cnt_[at(id)]++ == 0) std::erase(free_, id);
    }
  }
  void free_blocks(std::span<const int32_t> ids) override {
    ++clock_;
    for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
      if (--ref_cnt_[at(*id)] == 0) free_.push_back(*id);
    }
  }
  PrefixId cache_full_block(int32_t id, const BlockKey& key) override {
    stored_at_[at(id)] = clock_;
    return index_.insert(id, key);
  }
  bool reset_prefix_cache() override { return false; }  // no policy is asked to forget

 private:
  /// One that nobody can find goes before all others.
  std::vector<int32_t>::iterator stored_longest_ago() {
    return std::ranges::min_element(free_, {}, [&](int32_t id) {
      return index_.block(id) != nullptr ? stored_at_[at(id)] : -1;
    });
  }

  Policy policy_;
  PrefixIndex index_;
  std::vector<int> ref_cnt_;        // [num_blocks]
  std::vector<int64_t> stored_at_;  // [num_blocks]
  std::vector<int32_t> free_;
  int64_t clock_ = 0;  // calls that took or freed blocks
  std::mt19937_64 rng_{1};
};

}  // namespace

const char* name_of(Policy policy) {
  return policy == Policy::kLru ? "LRU" : policy == Policy::kFifo ? "FIFO" : "random";
}

ReplayResult replay(const std::vector<TraceRequest>& trace, int num_blocks, int block_size,
                    Policy policy) {
  BlockPool lru(num_blocks, block_size);
  ListPool list(num_blocks, block_size, policy);
  KvCacheManager manager(policy == Policy::kLru ? static_cast<lesson06::CachePool&>(lru) : list);
  ReplayResult result;
  for (const TraceRequest& request : trace) {
    BlockHashes hashes;
    const lesson06::ComputedBlocks computed = manager.get_computed_blocks(request.prompt, hashes);
    const auto prompt = static_cast<int>(request.prompt.size());
    result.asked += prompt;
    if (!manager.allocate_slots(0, prompt - computed.num_tokens, computed)) {
      ++result.refused;
      continue;
    }
    result.found += computed.num_tokens;
    manager.cache_blocks(0, request.prompt, hashes, prompt);
    // The answer's last token is drawn and never run.
    std::vector<int32_t> tokens = request.prompt;
    tokens.insert(tokens.end(), request.answer.begin(), request.answer.end() - 1);
    const auto all = static_cast<int>(tokens.size());
    if (manager.allocate_slots(0, all - prompt)) manager.cache_blocks(0, tokens, hashes, all);
    manager.free(0);
  }
  result.metrics = lru.metrics();
  return result;
}

}  // namespace lesson07
