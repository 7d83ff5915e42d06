// Random operations against the symbolic pool: every block that is found or taken is the predicted
// one. KV_RANDOM_OPS sets their number, KV_RANDOM_SEED the seed.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "block_manager.h"
#include "symbolic_pool.h"
#include "tests/support/shortened.h"

namespace {

using kvtest::require;
using lesson07::BlockManager;
using lesson07::ExtraKey;
using lesson07::ExtraKeys;
using lesson07::FreeOrder;
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
        manager_(kBlocks, kBlockSize, order_, bits_),
        model_(kBlocks, kBlockSize, order_) {}

  void operation(uint64_t op) {
    kvtest::Random random(op);
    const int kind = random.below(16);
    if (kind < 6 || live_.empty()) {
      start(random);
    } else if (const int seq = live_[static_cast<size_t>(random.below(live_.size()))]; kind < 10) {
      extend(seq, random);
    } else if (kind < 12) {
      text_ = fmt::format("publish {}", seq);
      const Tokens& tokens = model_.sequences().at(seq).tokens;
      manager_.publish(seq, tokens);
      model_.publish(seq, tokens.size());
    } else if (kind == 15 && random.below(64) == 0) {
      text_ = "reset";
      require(manager_.reset_prefix_cache() == model_.reset(), "a reset is refused, or is not");
    } else {
      text_ = fmt::format("free {}", seq);
      manager_.free_sequence(seq);
      model_.free(seq);
      std::erase(live_, seq);
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
    const auto made = manager_.start(tokens, keys_of(salt));
    const size_t found = model_.find(tokens, salt).size() * kBlockSize;
    const bool wanted = model_.start(made ? made->seq : -1, tokens, salt, tokens.size() - found);
    require(made.has_value() == wanted, "a start is refused, or is not");
    if (!made) return;
    require(made->num_cached_tokens == static_cast<int>(found), "other hits");
    compare_table(made->seq);
    live_.push_back(made->seq);
  }
  void extend(int seq, kvtest::Random& random) {
    const auto token = static_cast<int32_t>(random.below(2));
    text_ = fmt::format("extend {} by {}", seq, token);
    const lesson07::Growth growth{.seq = seq, .num_tokens = 1};
    require(manager_.extend({&growth, 1}) == model_.extend(seq, {&token, 1}),
            "an extension is refused, or is not");
    compare_table(seq);
  }
  void compare_table(int seq) const {
    require(std::ranges::equal(manager_.table(seq).block_ids(), model_.sequences().at(seq).table),
            "a table has other blocks");
  }
  void compare() const {
    manager_.check();
    require(manager_.sequences().size() == model_.sequences().size(), "other sequences");
    for (const int seq : live_) compare_table(seq);
    require(model_.same_queue(manager_.pool()), "the free queue is another one");
  }

  int bits_;
  FreeOrder order_;
  BlockManager manager_;
  SymbolicPool model_;
  std::vector<int> live_;
  std::string text_;
};

}  // namespace

TEST_CASE("random operations: every block that is found or taken is the predicted one") {
  const auto seed = static_cast<uint64_t>(kvtest::number_from("KV_RANDOM_SEED", 1));
  const auto report = kvtest::search<Run>(kvtest::number_from("KV_RANDOM_OPS", kNumOps), 500, seed);
  CHECK_MESSAGE(report.empty(), report);
}
