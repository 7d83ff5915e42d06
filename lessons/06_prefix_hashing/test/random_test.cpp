// Random operations: two managers that differ in nothing but their hash must do the same, and every
// hit must hold what a symbolic model says.

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <vector>

#include "cli/hashers.h"
#include "kv_cache_manager.h"
#include "requests.h"
#include "tests/support/shortened.h"

namespace {

using lesson06::BlockPool;
using lesson06::KvCacheManager;
using lesson06_test::Ids;
using lesson06_test::table_of;
using lesson06_test::Tokens;

constexpr int kBlocks = 24, kBlockSize = 2;

/// A manager, and for each block the exact prefix whose K and V stand in it.
struct Checked {
  explicit Checked(int bits) : manager(pool, {.hasher = lesson06::narrow_hasher(bits)}) {}
  BlockPool pool{kBlocks, kBlockSize};
  KvCacheManager manager;
  std::map<int64_t, lesson06::BlockHashes> hashes;  // of each request
  std::vector<Tokens> holds =
      std::vector<Tokens>(kBlocks);  // [num_blocks]: token 0 up to the block's end
};

struct Live {
  int64_t id = 0;
  Tokens tokens;
};

/// Few different tokens, so that prefixes meet often.
Tokens some_tokens(std::mt19937_64& rng) {
  Tokens tokens(1 + rng() % 12);
  for (int32_t& token : tokens) token = static_cast<int32_t>(rng() % 2);
  return tokens;
}

/// The blocks that are found hold the request's own prefix.
bool right_hits(const Checked& c, const lesson06::ComputedBlocks& computed, const Tokens& tokens) {
  for (size_t i = 0; i < computed.block_ids.size(); ++i) {
    const auto end = tokens.begin() + static_cast<std::ptrdiff_t>((i + 1) * kBlockSize);
    if (c.holds[computed.block_ids[i]] != Tokens(tokens.begin(), end)) {
      return false;
    }
  }
  return true;
}

/// The model of a pass: K and V of all slots are written.
void write(Checked& c, int64_t id, const Tokens& tokens) {
  const Ids ids = table_of(c.manager, id);
  for (size_t i = 0; i < ids.size(); ++i) {
    const size_t end = std::min(tokens.size(), (i + 1) * static_cast<size_t>(kBlockSize));
    c.holds[ids[i]] = Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(end));
  }
  c.manager.cache_blocks(id, tokens, c.hashes[id], static_cast<int>(tokens.size()));
}

/// Two managers that differ in nothing but their hash.
class Both {
 public:
  explicit Both(int bits) : wide_(64), narrow_(bits) {}

  void start(Tokens tokens) {
    const auto a = wide_.manager.get_computed_blocks(tokens, wide_.hashes[next_]),
               b = narrow_.manager.get_computed_blocks(tokens, narrow_.hashes[next_]);
    REQUIRE(a.block_ids == b.block_ids);
    REQUIRE(right_hits(narrow_, b, tokens));
    const int rest = static_cast<int>(tokens.size()) - a.num_tokens;
    const bool done = wide_.manager.allocate_slots(next_, rest, a).has_value();
    REQUIRE(narrow_.manager.allocate_slots(next_, rest, b).has_value() == done);
    if (!done) {
      for (Checked* c : {&wide_, &narrow_}) c->hashes.erase(next_);  // another request has the id
      return;
    }
    for (Checked* c : {&wide_, &narrow_}) write(*c, next_, tokens);
    live_.push_back({.id = next_++, .tokens = std::move(tokens)});
  }
  void grow(Live& request, int32_t token) {
    const bool done = wide_.manager.allocate_slots(request.id, 1).has_value();
    REQUIRE(narrow_.manager.allocate_slots(request.id, 1).has_value() == done);
    if (!done) return;
    request.tokens.push_back(token);
    for (Checked* c : {&wide_, &narrow_}) write(*c, request.id, request.tokens);
  }
  void end(size_t i) {
    for (Checked* c : {&wide_, &narrow_}) {
      c->manager.free(live_[i].id);
      c->hashes.erase(live_[i].id);
    }
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  void compare() const {
    wide_.manager.check();
    narrow_.manager.check();
    for (const Live& request : live_) {
      REQUIRE(table_of(wide_.manager, request.id) == table_of(narrow_.manager, request.id));
    }
  }
  std::vector<Live>& live() { return live_; }

 private:
  Checked wide_, narrow_;
  std::vector<Live> live_;
  int64_t next_ = 0;
};

void run(uint64_t seed, int64_t operations, int bits) {
  CAPTURE(seed);
  CAPTURE(bits);
  std::mt19937_64 rng(seed);
  Both both(bits);
  for (int64_t operation = 0; operation < operations; ++operation) {
    const auto kind = rng() % 4;
    if (kind == 0 || both.live().empty()) {
      both.start(some_tokens(rng));
    } else if (const size_t i = rng() % both.live().size(); kind == 1) {
      both.grow(both.live()[i], static_cast<int32_t>(rng() % 2));
    } else {
      both.end(i);
    }
    if (operation % 16 == 0) both.compare();
  }
}

}  // namespace

TEST_CASE("random operations: hits and blocks are the same under any hash") {
  const int64_t num_operations = kvtest::number_from("KV_RANDOM_OPS", 10'000'000) / 20;
  for (const int bits : {0, 1, 3, 8}) {
    run(static_cast<uint64_t>(bits) + 1, num_operations / 4, bits);
  }
}
