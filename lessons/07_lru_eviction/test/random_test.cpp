// Random operations against the symbolic pool: every block that is found or taken is the predicted
// one. KV_RANDOM_OPS sets their number, KV_RANDOM_SEED the seed.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "block_pool.h"
#include "lessons/06_prefix_hashing/program/hashers.h"
#include "symbolic_pool.h"
#include "tests/support/shortened.h"

namespace {

using kvtest::require;
using lesson07::BlockHashes;
using lesson07::BlockPool;
using lesson07::ExtraKey;
using lesson07::ExtraKeys;
using lesson07::FreeOrder;
using lesson07::KvCacheManager;
using lesson07::SymbolicPool;
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

/// Manager and model side by side.
class Run {
 public:
  /// Half of the runs have a hash of 3 bits, half of them the other order of free blocks.
  explicit Run(uint64_t settings)
      : bits_(settings % 2 == 0 ? 64 : 3),
        order_(settings / 2 % 2 == 0 ? FreeOrder::kAppend : FreeOrder::kUnhashedFirst),
        pool_(kBlocks, kBlockSize, order_),
        manager_(pool_, {.hasher = lesson06::narrow_hasher(bits_)}),
        model_(kBlocks, kBlockSize, order_) {}

  void operation(uint64_t op) {
    kvtest::Random random(op);
    const int kind = random.below(16);
    if (kind < 6 || live_.empty()) {
      start(random);
    } else if (const int64_t id = live_[static_cast<size_t>(random.below(live_.size()))];
               kind < 10) {
      extend(id, random);
    } else if (kind < 12) {
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
    if (op % 8 == 0) compare();
  }
  void finish() const { compare(); }
  const std::string& text() const { return text_; }
  std::string settings() const {
    return fmt::format("{} blocks of {}, {} bits of hash{}", kBlocks, kBlockSize, bits_,
                       order_ == FreeOrder::kAppend ? "" : ", unhashed first");
  }

 private:
  static constexpr int kBlocks = 12, kBlockSize = 2;

  void start(kvtest::Random& random) {
    Tokens tokens(static_cast<size_t>(1 + random.below(8)));
    for (int32_t& token : tokens) token = random.below(2);
    const int salt = random.below(8) == 0 ? 1 + random.below(2) : 0;
    text_ = fmt::format("start {}{}", fmt::join(tokens, " "), salt ? " salted" : "");
    BlockHashes& hashes = hashes_[next_] = BlockHashes(keys_of(salt));
    const auto computed = manager_.get_computed_blocks(tokens, hashes);
    require(computed.block_ids == model_.find(tokens, salt), "other hits");
    const size_t rest = tokens.size() - static_cast<size_t>(computed.num_tokens);
    const bool done = manager_.allocate_slots(next_, static_cast<int>(rest), computed).has_value();
    require(model_.start(next_, tokens, salt, rest) == done, "a start is refused, or is not");
    if (!done) return;
    compare_table(next_);
    live_.push_back(next_++);
  }
  void extend(int64_t id, kvtest::Random& random) {
    const auto token = static_cast<int32_t>(random.below(2));
    text_ = fmt::format("extend {} by {}", id, token);
    require(manager_.allocate_slots(id, 1).has_value() == model_.extend(id, {&token, 1}),
            "an extension is refused, or is not");
    compare_table(id);
  }
  void compare_table(int64_t id) const {
    require(std::ranges::equal(manager_.table(id).block_ids(), model_.requests().at(id).table),
            "a table has other blocks");
  }
  void compare() const {
    manager_.check();
    for (const int64_t id : live_) compare_table(id);
    require(model_.same_queue(pool_), "the free queue is another one");
  }

  int bits_;
  FreeOrder order_;
  BlockPool pool_;
  KvCacheManager manager_;
  SymbolicPool model_;
  std::vector<int64_t> live_;
  std::map<int64_t, BlockHashes> hashes_;  // of each request
  int64_t next_ = 0;
  std::string text_;
};

}  // namespace

TEST_CASE("random operations: every block that is found or taken is the predicted one") {
  const auto seed = static_cast<uint64_t>(kvtest::number_from("KV_RANDOM_SEED", 1));
  const auto report = kvtest::search<Run>(kvtest::number_from("KV_RANDOM_OPS", kNumOps), 500, seed);
  CHECK_MESSAGE(report.empty(), report);
}
