// Random operations against the symbolic groups: every block that is found, taken or forgotten is
// the predicted one.

#include <algorithm>

#include "lessons/07_lru_eviction/test/side_by_side.h"
#include "symbolic_groups.h"
#include "tables.h"

namespace {

using kvtest::require;
using lesson07::Tokens;
using lesson10::KvCacheCoordinator;
using lesson10::SymbolicGroups;

/// One to three groups that forget, or one that does not.
std::vector<int> windows_of(uint64_t settings) {
  kvtest::Random random(settings);
  std::vector<int> windows(2 + random.below(3));
  for (size_t i = 1; i < windows.size(); ++i) windows[i] = random.below(9);  // 0 keeps all
  return windows;
}

constexpr int kAtOnce = 4;  // new tokens

class Run : public lesson07::SideBySide<KvCacheCoordinator, SymbolicGroups> {
 public:
  explicit Run(uint64_t settings) : Run(settings, windows_of(settings)) {}
  std::string settings() const {
    return fmt::format("{}, windows {}", SideBySide::settings(), fmt::join(windows_, " "));
  }

 private:
  Run(uint64_t settings, const std::vector<int>& windows)
      : SideBySide(
            settings, 8 * static_cast<int>(windows.size()),
            [&](auto& pool, const auto& options) {
              return KvCacheCoordinator(pool, lesson10_test::groups_of(windows), options, kAtOnce);
            },
            [&](int num_blocks, int block_size, auto order) {
              return SymbolicGroups(num_blocks, block_size, windows, order);
            }),
        windows_(windows) {}

  void start(kvtest::Random& random) override {
    const Tokens tokens = some_tokens(1 + random.below(10), random);
    const int salt = some_salt(random);
    text_ = fmt::format("start {}{}", fmt::join(tokens, " "), salt ? " salted" : "");
    auto hashes = hashes_of(salt);
    const auto computed = manager_.get_computed_blocks(tokens, hashes);
    const auto found = model_.find(tokens, salt);
    Tokens hits;
    for (const auto& table : found) hits.insert(hits.end(), table.begin(), table.end());
    require(computed.block_ids == hits, "other hits");
    const size_t rest = tokens.size() - static_cast<size_t>(computed.num_tokens);
    const size_t now = std::min<size_t>(rest, 1 + random.below(kAtOnce));
    const size_t must_fit = random.below(2) == 0 ? rest : 0;
    const int64_t needed =  // as lesson 08's scheduler asks
        manager_.num_blocks_to_allocate(computed, static_cast<int>(must_fit));
    const bool done = needed <= manager_.pool().num_free() &&
                      manager_.allocate_slots(next_, static_cast<int>(now), computed).has_value();
    const auto most = [&](size_t group, size_t num_tokens) {
      return most_of(windows_[group], num_tokens);
    };
    require(model_.start(next_, tokens, salt, now, must_fit, most) == done,
            "a start is refused, or is not");
    if (!done) return;
    hashes_[next_] = hashes_of(salt);  // it may go on with other tokens
    is_live(next_++);
  }
  /// The blocks that a window and kAtOnce new tokens touch at most, wherever they begin in a block.
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
  void extend(int64_t id, kvtest::Random& random) override {
    const Tokens tokens = some_tokens(random.below(kAtOnce + 1), random);
    text_ = fmt::format("extend {} by {}", id, fmt::join(tokens, " "));
    require(manager_.allocate_slots(id, static_cast<int>(tokens.size())).has_value() ==
                model_.extend(id, tokens),
            "an extension is refused, or is not");
    compare_tables(id);
  }
  void compare_tables(int64_t id) const override {
    for (int group = 0; group < manager_.num_groups(); ++group) {
      require(std::ranges::equal(manager_.table(id, group).block_ids(),
                                 model_.requests().at(id).tables[group]),
              "a table has other blocks");
    }
  }

  std::vector<int> windows_;
};

}  // namespace

TEST_CASE("random operations: every block that is found, taken or forgotten is the predicted one") {
  const std::string report = lesson07::random_operations<Run>();
  CHECK_MESSAGE(report.empty(), report);
}
