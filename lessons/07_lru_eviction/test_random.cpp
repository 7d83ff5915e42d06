// Random operations against a symbolic model: a slot of the model holds the exact prefix that was
// written into it, and the model says which block every operation takes.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "block_manager.h"

namespace {

using lesson07::BlockManager;
using lesson07::ExtraKey;
using lesson07::ExtraKeys;
using lesson07::FreeOrder;
using lesson07::Growth;
using Tokens = std::vector<int32_t>;
using Ids = std::vector<int32_t>;

constexpr int kBlockSize = 2;

/// What the pool has to do, in plain words and slowly: contents are compared as a whole.
class Model {
 public:
  struct Prefix {
    Tokens tokens;  // from token 0 on
    int salt = 0;
    friend bool operator==(const Prefix&, const Prefix&) = default;
  };
  struct Block {
    int refs = 0;
    std::optional<Prefix> published;
    int64_t published_at = 0;
  };
  struct Sequence {
    Ids table;
    Tokens tokens;  // with a slot
    int salt = 0;
  };

  Model(int num_blocks, FreeOrder order) : order_(order), blocks_(at(num_blocks + 1)) {
    for (int id = 1; id <= num_blocks; ++id) queue_.push_back(id);
  }

  /// The table that a start must give; no value: it must be refused.
  std::optional<Ids> start(int seq, const Tokens& tokens, int salt) {
    Ids found;
    for (size_t end = kBlockSize; end < tokens.size(); end += kBlockSize) {
      const Prefix wanted{Tokens(tokens.begin(), tokens.begin() + static_cast<long>(end)), salt};
      const auto id = newest_with(wanted);
      if (!id) break;
      found.push_back(*id);
    }
    const auto free_hits = std::ranges::count_if(found, [&](int32_t id) { return refs(id) == 0; });
    const size_t rest = tokens.size() - found.size() * kBlockSize;
    const size_t needed = (rest + kBlockSize - 1) / kBlockSize;
    if (needed + static_cast<size_t>(free_hits) > queue_.size()) return std::nullopt;
    for (const int32_t id : found) {
      if (refs(id) == 0) std::erase(queue_, id);
      ++blocks_[at(id)].refs;
    }
    Ids table = found;
    for (size_t i = 0; i < needed; ++i) table.push_back(take());
    sequences_[seq] = {table, tokens, salt};
    return table;
  }
  bool extend(int seq, int32_t token) {
    Sequence& s = sequences_.at(seq);
    if (s.tokens.size() % kBlockSize == 0) {
      if (queue_.empty()) return false;
      s.table.push_back(take());
    }
    s.tokens.push_back(token);
    return true;
  }
  void publish(int seq) {
    const Sequence& s = sequences_.at(seq);
    for (size_t i = 0; (i + 1) * kBlockSize <= s.tokens.size(); ++i) {
      Block& block = blocks_[at(s.table[i])];
      if (block.published) continue;
      const auto end = static_cast<long>((i + 1) * kBlockSize);
      block.published = Prefix{Tokens(s.tokens.begin(), s.tokens.begin() + end), s.salt};
      block.published_at = ++clock_;
    }
  }
  void free(int seq) {
    const Ids& table = sequences_.at(seq).table;
    for (auto id = table.rbegin(); id != table.rend(); ++id) {
      Block& block = blocks_[at(*id)];
      if (--block.refs > 0) continue;
      if (order_ == FreeOrder::kUnhashedFirst && !block.published) {
        queue_.push_front(*id);
      } else {
        queue_.push_back(*id);
      }
    }
    sequences_.erase(seq);
  }
  bool reset() {
    if (!sequences_.empty()) return false;
    for (Block& block : blocks_) block.published.reset();
    return true;
  }

  const std::map<int, Sequence>& sequences() const { return sequences_; }
  const std::deque<int32_t>& queue() const { return queue_; }

 private:
  static size_t at(int64_t i) { return static_cast<size_t>(i); }
  int refs(int32_t id) const { return blocks_[at(id)].refs; }
  int32_t take() {
    const int32_t id = queue_.front();
    queue_.pop_front();
    blocks_[at(id)].refs = 1;
    blocks_[at(id)].published.reset();
    return id;
  }
  std::optional<int32_t> newest_with(const Prefix& prefix) const {
    std::optional<int32_t> best;
    for (size_t id = 1; id < blocks_.size(); ++id) {
      const Block& block = blocks_[id];
      if (block.published != prefix) continue;
      if (!best || block.published_at > blocks_[at(*best)].published_at) {
        best = static_cast<int32_t>(id);
      }
    }
    return best;
  }

  FreeOrder order_;
  std::vector<Block> blocks_;
  std::deque<int32_t> queue_;
  std::map<int, Sequence> sequences_;
  int64_t clock_ = 0;
};

int64_t num_operations() {
  const char* const set = std::getenv("KV_RANDOM_OPS");
  if (set) return std::atoll(set);
#if defined(__SANITIZE_ADDRESS__)
  return 500'000;
#else
  return 10'000'000;
#endif
}

ExtraKeys keys_of(int salt) {
  if (salt == 0) return {};
  return {ExtraKey{ExtraKey::Kind::kSalt, std::string(1, static_cast<char>('a' + salt))}};
}

/// One run: manager and model side by side.
class Run {
 public:
  Run(uint64_t seed, FreeOrder order, int bits)
      : rng_(seed), manager_(kBlocks, kBlockSize, order, bits), model_(kBlocks, order) {}

  void operation() {
    const auto kind = rng_() % 16;
    if (kind < 6 || live_.empty()) {
      start();
    } else if (const int seq = live_[rng_() % live_.size()]; kind < 10) {
      const auto token = static_cast<int32_t>(rng_() % 2);
      const Growth growth{.seq = seq, .num_tokens = 1};
      REQUIRE(manager_.extend({&growth, 1}) == model_.extend(seq, token));
    } else if (kind < 12) {
      manager_.publish(seq, model_.sequences().at(seq).tokens);
      model_.publish(seq);
    } else if (kind == 15 && rng_() % 64 == 0) {
      REQUIRE(manager_.reset_prefix_cache() == model_.reset());
      return;
    } else {
      manager_.free_sequence(seq);
      model_.free(seq);
      std::erase(live_, seq);
      return;
    }
  }
  void compare() const {
    manager_.check();
    REQUIRE(manager_.sequences().size() == model_.sequences().size());
    for (const auto& [seq, sequence] : model_.sequences()) {
      REQUIRE(std::ranges::equal(manager_.table(seq).block_ids(), sequence.table));
    }
    const auto queue = manager_.pool().queue().all();
    REQUIRE(std::ranges::equal(queue, model_.queue(), {}, [](const auto* b) { return b->id; }));
  }

 private:
  static constexpr int kBlocks = 12;

  void start() {
    Tokens tokens(1 + rng_() % 8);
    for (int32_t& token : tokens) token = static_cast<int32_t>(rng_() % 2);
    const int salt = rng_() % 8 == 0 ? static_cast<int>(1 + rng_() % 2) : 0;
    const auto made = manager_.start(tokens, keys_of(salt));
    const auto wanted = model_.start(made ? made->seq : -1, tokens, salt);
    REQUIRE(made.has_value() == wanted.has_value());
    if (!made) return;
    REQUIRE(std::ranges::equal(manager_.table(made->seq).block_ids(), *wanted));
    live_.push_back(made->seq);
  }

  std::mt19937_64 rng_;
  BlockManager manager_;
  Model model_;
  std::vector<int> live_;
};

}  // namespace

TEST_CASE("B18 B16 random operations: every block that is found or taken is the predicted one") {
  constexpr int kRuns = 8;
  for (int i = 0; i < kRuns; ++i) {
    const auto seed = static_cast<uint64_t>(i) + 1;
    const int bits = i % 2 == 0 ? 64 : 3;
    const FreeOrder order = i % 4 < 2 ? FreeOrder::kAppend : FreeOrder::kUnhashedFirst;
    CAPTURE(seed);
    CAPTURE(bits);
    Run run(seed, order, bits);
    for (int64_t operation = 0; operation < num_operations() / kRuns; ++operation) {
      CAPTURE(operation);
      run.operation();
      if (operation % 8 == 0) run.compare();
    }
  }
}
