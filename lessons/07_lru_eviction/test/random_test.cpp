// Random operations against the symbolic pool: every block that is found or taken is the predicted
// one.

#include <algorithm>

#include "side_by_side.h"
#include "symbolic_pool.h"

namespace {

using namespace lesson07;

class Run : public SideBySide<KvCacheManager, SymbolicPool> {
 public:
  explicit Run(uint64_t settings)
      : SideBySide(
            settings, 12,
            [](BlockPool& pool, const auto& options) { return KvCacheManager(pool, options); },
            [](auto... sizes) { return SymbolicPool(sizes...); }) {}

 private:
  void start(kvtest::Random& random) override {
    const Tokens tokens = some_tokens(1 + random.below(8), random);
    const int salt = some_salt(random);
    text_ = fmt::format("start {}{}", fmt::join(tokens, " "), salt ? " salted" : "");
    BlockHashes& hashes = hashes_[next_] = hashes_of(salt);
    const auto computed = manager_.get_computed_blocks(tokens, hashes);
    require(computed.block_ids == model_.find(tokens, salt), "other hits");
    const size_t rest = tokens.size() - static_cast<size_t>(computed.num_tokens);
    const bool done = manager_.allocate_slots(next_, static_cast<int>(rest), computed).has_value();
    require(model_.start(next_, tokens, salt, rest) == done, "a start is refused, or is not");
    if (done) is_live(next_++);
  }
  void extend(int64_t id, kvtest::Random& random) override {
    const Tokens token = some_tokens(1, random);
    text_ = fmt::format("extend {} by {}", id, token[0]);
    require(manager_.allocate_slots(id, 1).has_value() == model_.extend(id, token),
            "an extension is refused, or is not");
    compare_tables(id);
  }
  void compare_tables(int64_t id) const override {
    require(std::ranges::equal(manager_.table(id).block_ids(), model_.requests().at(id).table),
            "a table has other blocks");
  }
};

}  // namespace

TEST_CASE("random operations: every block that is found or taken is the predicted one") {
  const std::string report = random_operations<Run>();
  CHECK_MESSAGE(report.empty(), report);
}
