// Random operations against the symbolic groups: every block that is found, taken or forgotten is
// the predicted one. KV_RANDOM_OPS sets their number, KV_RANDOM_SEED the seed.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "kv_cache_coordinator.h"
#include "lessons/06_prefix_hashing/program/hashers.h"
#include "symbolic_groups.h"
#include "tests/support/shortened.h"

namespace {

using kvtest::require;
using lesson07::ExtraKey;
using lesson07::ExtraKeys;
using lesson07::FreeOrder;
using lesson10::BlockHashes;
using lesson10::BlockPool;
using lesson10::KvCacheCoordinator;
using lesson10::KvCacheGroup;
using lesson10::SymbolicGroups;
using Tokens = std::vector<int32_t>;

#if defined(__SANITIZE_ADDRESS__)
constexpr int64_t kNumOps = 500'000;
#else
constexpr int64_t kNumOps = 10'000'000;
#endif

ExtraKeys keys_of(int salt) {
  if (salt == 0) return {};
  return {ExtraKey{ExtraKey::Kind::kSalt, std::string(1, static_cast<char>('a' + salt))}};
}

std::vector<KvCacheGroup> groups_of(const std::vector<int>& windows) {
  std::vector<KvCacheGroup> groups;
  for (size_t i = 0; i < windows.size(); ++i) {
    groups.push_back({.window = windows[i], .layers = {static_cast<int>(i)}});
  }
  return groups;
}

/// One to three groups that forget, or one that does not.
std::vector<int> windows_of(uint64_t settings) {
  kvtest::Random random(settings);
  std::vector<int> windows(static_cast<size_t>(2 + random.below(3)));
  for (size_t i = 1; i < windows.size(); ++i) windows[i] = random.below(9);  // 0: keeps all
  return windows;
}

/// Coordinator and model side by side.
class Run {
 public:
  /// Half of the runs have a hash of 3 bits, half of them the other order of free blocks.
  explicit Run(uint64_t settings)
      : bits_(settings % 2 == 0 ? 64 : 3),
        order_(settings / 2 % 2 == 0 ? FreeOrder::kAppend : FreeOrder::kUnhashedFirst),
        windows_(windows_of(settings)),
        num_blocks_(8 * static_cast<int>(windows_.size())),
        pool_(num_blocks_, kBlockSize, order_),
        manager_(pool_, groups_of(windows_), {.hasher = lesson06::narrow_hasher(bits_)}, kAtOnce),
        model_(num_blocks_, kBlockSize, windows_, order_) {}

  void operation(uint64_t op) {
    kvtest::Random random(op);
    const int kind = random.below(16);
    if (kind < 5 || live_.empty()) {
      start(random);
    } else if (const int64_t id = live_[static_cast<size_t>(random.below(live_.size()))];
               kind < 10) {
      extend(id, random);
    } else if (kind < 13) {
      text_ = fmt::format("write {}", id);
      const Tokens& tokens = model_.requests().at(id).tokens;
      manager_.cache_blocks(id, tokens, hashes_.at(id), static_cast<int>(tokens.size()));
      model_.cache_blocks(id);
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
    if (op % 8 == 0) compare();
  }
  void finish() const { compare(); }
  const std::string& text() const { return text_; }
  std::string settings() const {
    return fmt::format("{} blocks of {}, {} bits of hash, windows {}{}", num_blocks_, kBlockSize,
                       bits_, fmt::join(windows_, " "),
                       order_ == FreeOrder::kAppend ? "" : ", unhashed first");
  }

 private:
  static constexpr int kBlockSize = 2, kAtOnce = 4;

  void start(kvtest::Random& random) {
    Tokens tokens(static_cast<size_t>(1 + random.below(10)));
    for (int32_t& token : tokens) token = random.below(2);
    const int salt = random.below(8) == 0 ? 1 + random.below(2) : 0;
    text_ = fmt::format("start {}{}", fmt::join(tokens, " "), salt ? " salted" : "");
    BlockHashes hashes(keys_of(salt));
    const auto computed = manager_.get_computed_blocks(tokens, hashes);
    const auto found = model_.find(tokens, salt);
    Tokens hits;
    for (const auto& table : found) hits.insert(hits.end(), table.begin(), table.end());
    require(computed.block_ids == hits, "other hits");
    const size_t rest = tokens.size() - static_cast<size_t>(computed.num_tokens);
    const size_t now = std::min<size_t>(rest, static_cast<size_t>(1 + random.below(kAtOnce)));
    const size_t must_fit = random.below(2) == 0 ? rest : 0;
    const bool done =
        manager_.allocate_slots(next_, static_cast<int>(now), computed, static_cast<int>(must_fit))
            .has_value();
    const auto most = [&](size_t group, size_t num_tokens) {
      return most_of(windows_[group], num_tokens);
    };
    require(model_.start(next_, tokens, salt, now, must_fit, most) == done,
            "a start is refused, or is not");
    if (!done) return;
    hashes_[next_] = BlockHashes(keys_of(salt));  // it may go on with other tokens
    compare_tables(next_);
    live_.push_back(next_++);
  }
  /// What a window and kAtOnce new tokens touch, from the worst place in a block on.
  static size_t most_of(int window, size_t num_tokens) {
    const size_t all = (num_tokens + kBlockSize - 1) / kBlockSize;
    if (window == 0) return all;
    size_t most = 0;
    for (size_t offset = 0; offset < kBlockSize; ++offset) {
      const size_t end = offset + static_cast<size_t>(window) - 1 + kAtOnce;
      most = std::max(most, (end + kBlockSize - 1) / kBlockSize);
    }
    return std::min(all, most);
  }
  void extend(int64_t id, kvtest::Random& random) {
    Tokens tokens(static_cast<size_t>(random.below(kAtOnce + 1)));
    for (int32_t& token : tokens) token = random.below(2);
    text_ = fmt::format("extend {} by {}", id, fmt::join(tokens, " "));
    require(manager_.allocate_slots(id, static_cast<int>(tokens.size())).has_value() ==
                model_.extend(id, tokens),
            "an extension is refused, or is not");
    compare_tables(id);
  }
  void compare_tables(int64_t id) const {
    for (int group = 0; group < manager_.num_groups(); ++group) {
      require(std::ranges::equal(manager_.table(id, group).block_ids(),
                                 model_.requests().at(id).tables[static_cast<size_t>(group)]),
              "a table has other blocks");
    }
  }
  void compare() const {
    manager_.check();
    for (const int64_t id : live_) compare_tables(id);
    require(model_.same_queue(pool_), "the free queue is another one");
  }

  int bits_;
  FreeOrder order_;
  std::vector<int> windows_;
  int num_blocks_;
  BlockPool pool_;
  KvCacheCoordinator manager_;
  SymbolicGroups model_;
  std::vector<int64_t> live_;
  std::map<int64_t, BlockHashes> hashes_;  // of each request
  int64_t next_ = 0;
  std::string text_;
};

}  // namespace

TEST_CASE("random operations: every block that is found, taken or forgotten is the predicted one") {
  const auto seed = static_cast<uint64_t>(kvtest::number_from("KV_RANDOM_SEED", 1));
  const auto report = kvtest::search<Run>(kvtest::number_from("KV_RANDOM_OPS", kNumOps), 500, seed);
  CHECK_MESSAGE(report.empty(), report);
}
