#pragma once

// Random operations on a manager and on its model, for the random tests of lessons 07 and 10.
// KV_RANDOM_OPS sets their number, KV_RANDOM_SEED the seed.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "lessons/06_prefix_hashing/cli/hashers.h"
#include "lessons/07_lru_eviction/block_pool.h"
#include "tests/support/shortened.h"

namespace lesson07 {

using kvtest::require;
using Tokens = std::vector<int32_t>;

/// Manager and model side by side. Half of the runs have a hash of 3 bits; half use
/// FreeOrder::kUnhashedFirst.
template <class Manager, class Model>
class SideBySide {
 public:
  virtual ~SideBySide() = default;

  void operation(uint64_t op) {
    kvtest::Random random(op);
    const int kind = random.below(16);
    if (kind < 5 || live_.empty()) {
      start(random);
    } else if (const int64_t id = live_[random.below(live_.size())]; kind < 10) {
      extend(id, random);
    } else if (kind < 13) {
      text_ = fmt::format("write {}", id);
      const Tokens& tokens = model_.requests().at(id).tokens;
      manager_.cache_blocks(id, tokens, hashes_.at(id), static_cast<int>(tokens.size()));
      model_.cache_blocks(id, tokens.size());
    } else if (kind == 15 && random.below(64) == 0) {
      text_ = "reset";
      require(pool_.reset_prefix_cache() == model_.reset(), "a reset is refused, or is not");
    } else {
      text_ = fmt::format("free {}", id);
      manager_.free(id);
      hashes_.erase(id);
      model_.free(id);
      std::erase(live_, id);
    }
    if (op % 8 == 0) finish();
  }
  void finish() const {
    manager_.check();
    for (const int64_t id : live_) compare_tables(id);
    require(model_.same_queue(pool_), "the free queue is another one");
  }
  const std::string& text() const { return text_; }  // of the last operation
  std::string settings() const {
    return fmt::format("{} blocks of {}, {} bits of hash{}", pool_.num_blocks(), kBlockSize, bits_,
                       order_ == FreeOrder::kAppend ? "" : ", unhashed first");
  }

 protected:
  static constexpr int kBlockSize = 2;

  /// `manager_of` makes the manager, `model_of` the model.
  SideBySide(uint64_t settings, int num_blocks, const auto& manager_of, const auto& model_of)
      : bits_(settings % 2 == 0 ? 64 : 3),
        order_(settings / 2 % 2 == 0 ? FreeOrder::kAppend : FreeOrder::kUnhashedFirst),
        pool_(num_blocks, kBlockSize, order_),
        manager_(manager_of(
            pool_, lesson06::CacheManagerOptions{.hasher = lesson06::narrow_hasher(bits_)})),
        model_(model_of(num_blocks, kBlockSize, order_)) {}

  virtual void start(kvtest::Random& random) = 0;
  virtual void extend(int64_t id, kvtest::Random& random) = 0;
  virtual void compare_tables(int64_t id) const = 0;

  /// Only two different tokens, so that prefixes are often equal.
  static Tokens some_tokens(int number, kvtest::Random& random) {
    Tokens tokens(number);
    for (int32_t& token : tokens) token = random.below(2);
    return tokens;
  }
  static int some_salt(kvtest::Random& random) {
    return random.below(8) == 0 ? 1 + random.below(2) : 0;
  }
  static BlockHashes hashes_of(int salt) {
    if (salt == 0) return {};
    return BlockHashes({ExtraKey{ExtraKey::Kind::kSalt, std::string(1, "abc"[salt])}});
  }
  void is_live(int64_t id) {
    compare_tables(id);
    live_.push_back(id);
  }

  int bits_;
  FreeOrder order_;
  BlockPool pool_;
  Manager manager_;
  Model model_;
  std::vector<int64_t> live_;
  std::map<int64_t, BlockHashes> hashes_;  // of each request
  int64_t next_ = 0;
  std::string text_;
};

/// Returns an empty string, or the difference and the operations that lead to it.
template <class Run>
std::string random_operations() {
  return kvtest::search<Run>(kvtest::num_random_ops(10'000'000, 500'000), 500);
}

}  // namespace lesson07
