// Tests of lesson 06's bookkeeping: the index, the pool, and requests that find their beginnings.

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "cli/forgery.h"
#include "cli/hashers.h"
#include "kv_cache_manager.h"
#include "wrong_use.h"

namespace {

using lesson06::BlockPool;
using lesson06::ExtraKey;
using lesson06::ExtraKeys;
using lesson06::kForgedA;
using lesson06::kForgedB;
using lesson06::KvCacheManager;
using lesson06::PrefixIndex;
using lesson06::xxh64_block;
using namespace lesson06_test;

}  // namespace

TEST_CASE("a short request takes tails: what is left of a prefix can be found") {
  BlockPool pool(4, 4);
  KvCacheManager manager(pool);
  run_and_free(manager, range(0, 12));   // three blocks with a name
  run_and_free(manager, range(50, 57));  // takes two of them, from the tail
  CHECK(found(manager, range(0, 12)) == 4);
}

TEST_CASE("a second request begins in the blocks of the first") {
  BlockPool pool(16, 4);
  KvCacheManager manager(pool);
  run(manager, 1, range(0, 11));
  Tokens other = range(0, 8);
  other.insert(other.end(), {90, 91, 92});
  const auto computed = look_up(manager, other);
  CHECK(computed.num_tokens == 8);
  CHECK(computed.num_queried == 11);  // also those that cannot be found
  BlockHashes hashes;
  manager.get_computed_blocks(other, hashes);
  CHECK(hashes.all().size() == 2);  // the request keeps what was hashed
  CHECK(run(manager, 2, other) == 8);
  const Ids a = table_of(manager, 1), b = table_of(manager, 2);
  CHECK(b[0] == a[0]);
  CHECK(b[1] == a[1]);
  CHECK(b[2] != a[2]);
  CHECK(pool.ref_cnt(a[0]) == 2);
  CHECK(pool.num_used() == 4);
  CHECK(manager.num_slots_used() == 8 + 3 + 3);
}

TEST_CASE("the new blocks of a request are told: its table's last ones") {
  BlockPool pool(16, 4);
  KvCacheManager manager(pool);
  run(manager, 1, range(0, 8));
  const auto computed = look_up(manager, range(0, 9));
  const auto first = manager.allocate_slots(2, 5, computed);
  REQUIRE(first.has_value());
  CHECK(Ids(first->begin(), first->end()) == Ids{table_of(manager, 2)[2], table_of(manager, 2)[3]});
  CHECK(manager.allocate_slots(2, 3)->empty());  // they fill the last block
  const int32_t next = manager.allocate_slots(2, 1)->front();
  CHECK(next == table_of(manager, 2).back());
  CHECK_THROWS_AS(manager.allocate_slots(2, 1, computed), std::invalid_argument);
  CHECK_THROWS_AS(manager.allocate_slots(2, -1), std::invalid_argument);
  CHECK_THROWS_AS(manager.allocate_slots(3, -9, computed), std::invalid_argument);
  CHECK_FALSE(manager.allocate_slots(3, INT32_MAX, computed));
  CHECK_FALSE(manager.holds(3));
  manager.check();
}

TEST_CASE("a hit ends at the first difference: later blocks are equal and do not count") {
  BlockPool pool(16, 4);
  KvCacheManager manager(pool);
  run(manager, 1, range(0, 17));
  Tokens other = range(0, 17);
  other[5] = 99;
  CHECK(run(manager, 2, other) == 4);
  other[0] = 98;
  CHECK(run(manager, 3, other) == 0);
}

TEST_CASE("the last token is never taken from the cache") {
  for (const int n : {1, 3, 4, 5, 8, 9, 12}) {
    CAPTURE(n);
    BlockPool pool(16, 4);
    KvCacheManager manager(pool);
    run(manager, 1, range(0, 12));
    CHECK(found(manager, range(0, n)) == (n - 1) / 4 * 4);
    BlockHashes hashes;
    manager.get_computed_blocks(range(0, 13), hashes);  // three, also where n tokens have fewer
    CHECK(manager.get_computed_blocks(range(0, n), hashes).num_tokens == (n - 1) / 4 * 4);
    const auto computed = look_up(manager, range(0, n));
    if (!computed.block_ids.empty()) {  // the next block's parent is the last one that was found
      CHECK(computed.chain.prefix == pool.index().block(computed.block_ids.back())->prefix);
    }
    CHECK(found(manager, Tokens{}) == 0);
  }
}

// Blocks that are found before the pass that fills them would be read before they are written.
TEST_CASE("only what is computed can be found, whatever has a slot already") {
  BlockPool pool(4, 4);
  KvCacheManager manager(pool);
  const Tokens tokens = range(0, 9);
  REQUIRE(start(manager, 1, tokens));
  for (const auto& [computed, can_be_found] : {std::pair{0, 0}, {4, 4}, {7, 4}, {8, 8}}) {
    cache_blocks(manager, 1, tokens, computed);
    CHECK(found(manager, tokens) == can_be_found);
  }
}

// vLLM #4761: a block that was taken for something else stayed in the index of cached blocks.
TEST_CASE("a block that holds something else now is not found under its old name") {
  BlockPool pool(2, 4);
  KvCacheManager manager(pool);
  run_and_free(manager, range(0, 4));
  CHECK(found(manager, range(0, 5)) == 4);  // no request uses it any more
  run_and_free(manager, range(50, 58));
  CHECK(found(manager, range(0, 5)) == 0);
  CHECK(pool.index().size() == 2);
}

TEST_CASE("hits are pinned before anything else is taken, and count as taken") {
  BlockPool pool(4, 4);
  KvCacheManager manager(pool);
  REQUIRE(manager.allocate_slots(1, 4));
  run_and_free(manager, range(0, 8));
  const auto computed = look_up(manager, range(0, 16));
  CHECK(computed.num_tokens == 8);
  CHECK(pool.num_free() == 3);                          // a lookup pins nothing
  CHECK_FALSE(manager.allocate_slots(2, 8, computed));  // two hits and two new ones
  CHECK_FALSE(manager.holds(2));
  CHECK(pool.index().size() == 2);
  REQUIRE(manager.allocate_slots(2, 4, computed));
  CHECK(pool.num_free() == 0);
  CHECK(pool.index().size() == 2);
  CHECK(std::ranges::equal(computed.block_ids, manager.table(2).block_ids().first(2)));
  manager.check();
}

TEST_CASE("two blocks with one content: when one is overwritten the other is still found") {
  BlockPool pool(5, 4);
  KvCacheManager manager(pool);
  REQUIRE(start(manager, 1, range(0, 5)));
  REQUIRE(start(manager, 2, range(0, 5)));
  write(manager, 1, range(0, 5));
  write(manager, 2, range(0, 5));
  CHECK(pool.index().size() == 2);
  const int32_t a = table_of(manager, 1)[0], b = table_of(manager, 2)[0];
  CHECK(pool.index().block(a)->prefix == pool.index().block(b)->prefix);
  CHECK(look_up(manager, range(0, 5)).block_ids == Ids{a});  // the older one
  manager.free(1);
  run(manager, 3, range(60, 72));  // takes three blocks, the first one's two among them
  CHECK_FALSE(std::ranges::equal(pool.index().tokens(a), range(0, 4)));
  CHECK(look_up(manager, range(0, 5)).block_ids == Ids{b});
}

TEST_CASE("a reset forgets all, statistics too, and is refused while a request holds a block") {
  BlockPool pool(8, 4);
  KvCacheManager manager(pool);
  run(manager, 1, range(0, 9));
  CHECK_FALSE(manager.reset_prefix_cache());
  CHECK(found(manager, range(0, 9)) == 8);
  CHECK(manager.prefix_cache_stats().requests == 1);
  manager.free(1);
  CHECK(manager.reset_prefix_cache());
  CHECK(found(manager, range(0, 9)) == 0);
  CHECK(pool.index().size() == 0);
  CHECK(manager.prefix_cache_stats().requests == 0);
  manager.check();
}

TEST_CASE("a request that was not looked up finds nothing, and others find what it computes") {
  BlockPool pool(8, 4);
  KvCacheManager manager(pool);
  run(manager, 1, range(0, 9));
  REQUIRE(manager.allocate_slots(2, 13));
  write(manager, 2, range(0, 13));
  CHECK(manager.prefix_cache_stats().requests == 1);  // a request that did not ask is not counted
  CHECK(found(manager, range(0, 13)) == 12);
}

TEST_CASE("a lookup without queried tokens does not count in the hit rate") {
  BlockPool pool(8, 4);
  KvCacheManager manager(pool);
  run_and_free(manager, range(0, 9));
  auto computed = look_up(manager, range(0, 9));
  computed.num_queried = 0;
  REQUIRE(manager.allocate_slots(1, 1, computed));
  CHECK(manager.prefix_cache_stats().requests == 1);
  CHECK(manager.prefix_cache_stats().hits == 0);
}

TEST_CASE("each request counts in the hit rate once, when it begins") {
  BlockPool pool(4, 4);
  KvCacheManager manager(pool);
  const auto stats = [&] {
    const auto& s = manager.prefix_cache_stats();
    return std::vector{s.requests, s.queries, s.hits};
  };
  CHECK(manager.prefix_cache_stats().hit_rate() == 0);
  run_and_free(manager, range(0, 9));
  CHECK(stats() == std::vector<int64_t>{1, 9, 0});
  run_and_free(manager, range(0, 6));
  CHECK(stats() == std::vector<int64_t>{2, 15, 4});
  CHECK_FALSE(start(manager, 1, range(0, 40)));  // it waits, and is not counted yet
  CHECK(stats() == std::vector<int64_t>{2, 15, 4});
  run_and_free(manager, range(0, 9));
  CHECK(stats() == std::vector<int64_t>{3, 24, 12});
  CHECK(manager.prefix_cache_stats().hit_rate() == 0.5);
}

/// A first block, then another one, then one token that has to run.
Tokens after_first(const Tokens& second, const Tokens& third = {}) {
  Tokens tokens = range(0, 16);
  tokens.insert(tokens.end(), second.begin(), second.end());
  tokens.insert(tokens.end(), third.begin(), third.end());
  tokens.push_back(7);
  return tokens;
}

// vLLM #12621, CVE-2025-25183: prompts could be made that collide, and got others' K and V.
// OpenVINO GenAI #3722: a cache that compares the hash alone cannot even notice.
TEST_CASE("the forged pair: one hash, and no false hit") {
  REQUIRE(xxh64_block(0x1122334455667788, kForgedA) == 0x769699b396f38b19);
  REQUIRE(xxh64_block(0x1122334455667788, kForgedB) == 0x769699b396f38b19);
  REQUIRE(xxh64_block({}, kForgedA) !=
          xxh64_block({}, kForgedB));  // made for a block with a parent
  for (const bool exact : {true, false}) {
    CAPTURE(exact);
    BlockPool pool(16, 16, exact ? PrefixIndex::Check::kExact : PrefixIndex::Check::kHashOnly);
    KvCacheManager manager(pool);
    run(manager, 1, after_first(kForgedA));
    const auto computed = look_up(manager, after_first(kForgedB, range(2000, 2032)));
    CHECK(computed.num_tokens == (exact ? 16 : 32));
    CHECK(computed.num_refused == (exact ? 1 : 0));  // what comes after it is not looked for
  }
}

TEST_CASE("equal tokens after a forged parent are another prefix") {
  // [A, T] is cached; then [B], which collides with A; then [B, T]. T's tokens are equal, its hash
  // is equal, and its K and V were computed after A.
  BlockPool pool(16, 16);
  KvCacheManager manager(pool);
  const Tokens t = range(2000, 2016);
  run(manager, 1, after_first(kForgedA, t));
  run(manager, 2, after_first(kForgedB));
  CHECK(found(manager, after_first(kForgedB, t)) == 32);  // B itself, and not T
  CHECK(found(manager, after_first(kForgedA, t)) == 48);
}

// vLLM #3264: prompts for two adapters shared K and V. #17045, CVE-2025-46570: salts, as the time
// to the first token tells what others have asked.
TEST_CASE("a salt, an adapter, an image and its place: the same key hits, another one misses") {
  const std::vector<ExtraKeys> all{{},
                                   {{ExtraKey::Kind::kSalt, "x"}},
                                   {{ExtraKey::Kind::kSalt, "y"}},
                                   {{ExtraKey::Kind::kAdapter, "x"}},
                                   {{ExtraKey::Kind::kContent, "x"}},
                                   {{ExtraKey::Kind::kContent, "x", 1}}};
  for (const int bits : {64, 0}) {  // without a hash the comparison alone decides
    for (size_t i = 0; i < all.size(); ++i) {
      BlockPool pool(32, 4);
      KvCacheManager manager(pool, {.hasher = lesson06::narrow_hasher(bits)});
      run(manager, 1, range(0, 9), all[i]);
      for (size_t j = 0; j < all.size(); ++j) {
        CAPTURE(bits);
        CAPTURE(i);
        CAPTURE(j);
        CHECK(found(manager, range(0, 9), all[j]) == (i == j ? 8 : 0));
      }
    }
  }
}

TEST_CASE("extra keys mean the same in any order, and two images with another border do not") {
  const ExtraKey salt{ExtraKey::Kind::kSalt, "s"}, a{ExtraKey::Kind::kContent, "a", 0},
      b{ExtraKey::Kind::kContent, "b", 4}, later{ExtraKey::Kind::kContent, "b", 5};
  for (const int bits : {64, 0}) {
    BlockPool pool(8, 4);
    KvCacheManager manager(pool, {.hasher = lesson06::narrow_hasher(bits)});
    run(manager, 1, range(0, 9), {salt, a, b});
    CHECK(found(manager, range(0, 9), {b, salt, a}) == 8);
    CHECK(found(manager, range(0, 9), {salt, a, later}) == 0);
    CHECK(found(manager, range(0, 9), {salt, a}) == 0);
  }
}

TEST_CASE("unknown requests are named, and nothing changes") {
  BlockPool pool(4, 4);
  KvCacheManager manager(pool);
  run(manager, 1, range(0, 6));
  CHECK_THROWS_WITH_AS(manager.free(7), doctest::Contains("request 7"), std::out_of_range);
  CHECK_THROWS_WITH_AS(manager.table(7), doctest::Contains("request 7"), std::out_of_range);
  manager.check();
}

TEST_CASE("wrong use of a pool is named, and nothing changes") {
  BlockPool pool(4, 4);
  check_wrong_use(pool, 0);
  CHECK_THROWS_AS(BlockPool(0, 4), std::invalid_argument);
  CHECK_THROWS_AS(BlockPool(4, 0), std::invalid_argument);
}
