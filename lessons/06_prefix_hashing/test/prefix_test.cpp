// Tests of lesson 06's bookkeeping: hashes, the index, and sequences that find their beginnings.

#include <doctest/doctest.h>

#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "block_hash.h"
#include "block_manager.h"
#include "common/base/error.h"
#include "forgery.h"
#include "prefix_index.h"

namespace {

using lesson06::BlockManager;
using lesson06::Growth;
using lesson06::hash_chain;
using lesson06::PrefixId;
using lesson06::PrefixIndex;
using lesson06::xxh64_block;

using Tokens = std::vector<int32_t>;

Tokens range(int32_t begin, int32_t end) {
  Tokens tokens(static_cast<size_t>(end - begin));
  std::iota(tokens.begin(), tokens.end(), begin);
  return tokens;
}

/// Starts a sequence, gives it slots for all of its tokens, and publishes them.
BlockManager::Start run(BlockManager& manager, const Tokens& tokens) {
  const BlockManager::Start start = manager.start(tokens);
  const Growth growth{.seq = start.seq,
                      .num_tokens = static_cast<int>(tokens.size()) - start.num_cached_tokens};
  REQUIRE(manager.extend({&growth, 1}));
  manager.publish(start.seq, tokens);
  manager.check();
  return start;
}

// The pair that the literature of this course knows: legal ids of Qwen3's vocabulary.
const Tokens kForgedA{1000, 1001, 148912, 115505, 1004, 1005, 1006, 1007,
                      1008, 1009, 37649,  19953,  1012, 1013, 1014, 1015};
const Tokens kForgedB{1000, 1001, 70013, 105460, 1004, 1005, 1006, 1007,
                      1008, 1009, 0,     0,      1012, 1013, 1014, 1015};

}  // namespace

TEST_CASE("golden digests of XXH64 chains") {
  CHECK(xxh64_block({}, range(0, 16)) == 0x8a44256aed976c78);
  CHECK(xxh64_block(0x8a44256aed976c78, range(16, 32)) == 0x215105cee679379b);
  CHECK(xxh64_block({}, range(16, 32)) == 0x97e285afaac12d59);
  CHECK(xxh64_block({}, range(1, 5)) == 0x27f0147e6ec514a6);
  CHECK(xxh64_block(0x27f0147e6ec514a6, range(5, 9)) == 0xec11742426488122);
  CHECK(hash_chain(range(0, 40), 16, xxh64_block) ==
        std::vector<uint64_t>{0x8a44256aed976c78, 0x215105cee679379b});
}

TEST_CASE("no parent is no value: a parent of zeros or ones is another one") {
  const Tokens tokens = range(0, 16);
  CHECK(xxh64_block({}, tokens) != xxh64_block(0, tokens));
  CHECK(xxh64_block({}, tokens) != xxh64_block(~uint64_t{0}, tokens));
}

TEST_CASE("a hash is chosen by its name") {
  const Tokens tokens = range(0, 16);
  CHECK(lesson06::hasher_of("xxh64")({}, tokens) == xxh64_block({}, tokens));
  // SHA-256 of these 64 bytes begins so (sha256sum says the same).
  CHECK(lesson06::hasher_of("sha256")({}, tokens) == lesson06::sha256_block({}, tokens));
  CHECK(lesson06::sha256_block({}, {}) == 0x141cfc9842c4b0e3);
  CHECK(lesson06::hasher_of("3")({}, tokens) == (xxh64_block({}, tokens) & 7));
  CHECK(lesson06::hasher_of("0")({}, tokens) == 0);
  CHECK(lesson06::hasher_of("64")({}, tokens) == xxh64_block({}, tokens));
  for (const char* name : {"", "md5", "65", "-1", "3x"}) {
    CHECK_THROWS_WITH_AS(lesson06::hasher_of(name), doctest::Contains("wanted xxh64"),
                         kv::UserError);
  }
}

TEST_CASE("a short request takes tails: what is left of a prefix can be found") {
  BlockManager manager(4, 4, xxh64_block);
  manager.free_sequence(run(manager, range(0, 12)).seq);   // three blocks with a name
  manager.free_sequence(run(manager, range(50, 57)).seq);  // takes two of them, from the tail
  CHECK(manager.start(range(0, 12)).num_cached_tokens == 4);
  manager.check();
}

TEST_CASE("a partly filled block has no hash, and gets one when it is full") {
  for (const int n : {0, 1, 15}) CHECK(hash_chain(range(0, n), 16, xxh64_block).empty());
  BlockManager manager(8, 4);
  const Tokens tokens = range(0, 9);
  const auto start = run(manager, tokens);
  CHECK(manager.index().size() == 2);
  const int32_t tail = manager.table(start.seq).block_ids()[2];
  CHECK(manager.index().content(tail) == nullptr);
  const Growth growth{.seq = start.seq, .num_tokens = 3};
  REQUIRE(manager.extend({&growth, 1}));
  manager.publish(start.seq, range(0, 12));
  CHECK(manager.index().content(tail)->hash == hash_chain(range(0, 12), 4, xxh64_block)[2]);
  manager.publish(start.seq, range(0, 12));  // again: nothing new
  CHECK(manager.index().size() == 3);
}

TEST_CASE("a second sequence begins in the blocks of the first") {
  BlockManager manager(16, 4);
  const auto a = run(manager, range(0, 11));
  Tokens other = range(0, 8);
  other.insert(other.end(), {90, 91, 92});
  const auto b = run(manager, other);
  CHECK(b.num_cached_tokens == 8);
  CHECK(manager.table(b.seq).block_ids()[0] == manager.table(a.seq).block_ids()[0]);
  CHECK(manager.table(b.seq).block_ids()[1] == manager.table(a.seq).block_ids()[1]);
  CHECK(manager.table(b.seq).block_ids()[2] != manager.table(a.seq).block_ids()[2]);
  CHECK(manager.pool().ref_cnt(manager.table(a.seq).block_ids()[0]) == 2);
  CHECK(manager.pool().num_used() == 4);
  CHECK(manager.num_tokens_asked() == 22);
  CHECK(manager.num_tokens_found() == 8);
}

TEST_CASE("a hit ends at the first difference: later blocks are equal and do not count") {
  BlockManager manager(16, 4);
  run(manager, range(0, 17));
  Tokens other = range(0, 17);
  other[5] = 99;
  CHECK(run(manager, other).num_cached_tokens == 4);
  other[0] = 98;
  CHECK(run(manager, other).num_cached_tokens == 0);
}

TEST_CASE("the last token is never taken from the cache") {
  for (const int n : {1, 3, 4, 5, 8, 9, 12}) {
    CAPTURE(n);
    BlockManager manager(16, 4);
    run(manager, range(0, 12));
    const auto again = manager.start(range(0, n));
    CHECK(again.num_cached_tokens == (n - 1) / 4 * 4);
    manager.check();
  }
}

// vLLM #37152: blocks that were registered before the pass that fills them were found in it.
TEST_CASE("what has not been written is not found") {
  BlockManager manager(16, 4);
  const auto a = manager.start(range(0, 9));
  const Growth growth{.seq = a.seq, .num_tokens = 9};
  REQUIRE(manager.extend({&growth, 1}));
  CHECK(manager.start(range(0, 9)).num_cached_tokens == 0);  // in the same step
  manager.publish(a.seq, range(0, 9));
  CHECK(manager.start(range(0, 9)).num_cached_tokens == 8);
}

TEST_CASE("a sequence that ends before its pass leaves nothing to be found") {
  BlockManager manager(16, 4);
  const auto a = manager.start(range(0, 9));
  const Growth growth{.seq = a.seq, .num_tokens = 9};
  REQUIRE(manager.extend({&growth, 1}));
  manager.free_sequence(a.seq);
  CHECK(manager.index().size() == 0);
  CHECK(manager.start(range(0, 9)).num_cached_tokens == 0);
}

TEST_CASE("what was freed is found until its block is taken for something else") {
  BlockManager manager(4, 4);
  manager.free_sequence(run(manager, range(0, 9)).seq);
  CHECK(manager.pool().num_used() == 0);
  const auto again = run(manager, range(0, 9));
  CHECK(again.num_cached_tokens == 8);
  CHECK(manager.pool().num_used() == 3);
  manager.free_sequence(again.seq);
  manager.free_sequence(run(manager, range(100, 116)).seq);  // all four blocks
  CHECK(manager.start(range(0, 9)).num_cached_tokens == 0);
}

// vLLM #4761: a block that was taken for something else stayed in the index of cached blocks.
TEST_CASE("a block that holds something else now is not found under its old name") {
  BlockManager manager(2, 4);
  manager.free_sequence(run(manager, range(0, 4)).seq);
  manager.free_sequence(run(manager, range(50, 58)).seq);
  CHECK(manager.start(range(0, 5)).num_cached_tokens == 0);
  CHECK(manager.index().size() == 2);
  manager.check();
}

TEST_CASE("what is found is pinned before anybody else can have it") {
  BlockManager manager(3, 4);
  manager.free_sequence(run(manager, range(0, 8)).seq);
  const auto a = manager.start(range(0, 9));  // pins both blocks, one is left
  CHECK(a.num_cached_tokens == 8);
  const auto b = manager.start(range(70, 78));
  const Growth two{.seq = b.seq, .num_tokens = 8}, one{.seq = b.seq, .num_tokens = 4};
  CHECK_FALSE(manager.extend({&two, 1}));
  CHECK(manager.extend({&one, 1}));
  CHECK(manager.table(b.seq).block_ids()[0] != manager.table(a.seq).block_ids()[0]);
  CHECK(manager.index().size() == 2);
  manager.check();
}

TEST_CASE("two blocks with one content: when one is overwritten the other is still found") {
  BlockManager manager(5, 4);
  const auto a = manager.start(range(0, 5)), b = manager.start(range(0, 5));
  const Growth both[] = {{.seq = a.seq, .num_tokens = 5}, {.seq = b.seq, .num_tokens = 5}};
  REQUIRE(manager.extend(both));
  manager.publish(a.seq, range(0, 5));
  manager.publish(b.seq, range(0, 5));
  CHECK(manager.index().size() == 2);
  const int32_t block_a = manager.table(a.seq).block_ids()[0];
  const int32_t block_b = manager.table(b.seq).block_ids()[0];
  CHECK(manager.index().content(block_a)->prefix == manager.index().content(block_b)->prefix);
  manager.free_sequence(b.seq);
  run(manager, range(60, 72));  // takes three blocks, b's two among them
  CHECK(manager.index().content(block_b)->tokens != range(0, 4));
  CHECK(manager.start(range(0, 5)).num_cached_tokens == 4);
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
    BlockManager manager(16, 16, xxh64_block,
                         exact ? PrefixIndex::Check::kExact : PrefixIndex::Check::kHashOnly);
    run(manager, after_first(kForgedA));
    CHECK(manager.start(after_first(kForgedB)).num_cached_tokens == (exact ? 16 : 32));
    CHECK(manager.index().num_refused() == (exact ? 1 : 0));
  }
}

TEST_CASE("equal tokens after a forged parent are another prefix") {
  // [A, T] is cached; then [B], which collides with A; then [B, T]. T's tokens are equal, its hash
  // is equal, and its K and V were computed after A.
  BlockManager manager(16, 16);
  const Tokens t = range(2000, 2016);
  run(manager, after_first(kForgedA, t));
  run(manager, after_first(kForgedB));
  CHECK(manager.start(after_first(kForgedB, t)).num_cached_tokens == 32);  // B itself, and not T
  CHECK(manager.start(after_first(kForgedA, t)).num_cached_tokens == 48);
}

TEST_CASE("a pair with one hash can be forged") {
  struct Case {
    int32_t vocab;
    int block_size;
  };
  for (const Case c : {Case{2048, 32}, Case{151'936, 16}}) {
    CAPTURE(c.vocab);
    const auto pair = lesson06::forge_pair(c.vocab, c.block_size);
    REQUIRE(pair.has_value());
    CHECK(pair->first != pair->second);
    for (const Tokens* tokens : {&pair->first, &pair->second}) {
      REQUIRE(tokens->size() == static_cast<size_t>(c.block_size));
      for (const int32_t token : *tokens) CHECK((token >= 0 && token < c.vocab));
    }
    for (const uint64_t parent : {uint64_t{0}, uint64_t{0x1122334455667788}, ~uint64_t{0}}) {
      CHECK(xxh64_block(parent, pair->first) == xxh64_block(parent, pair->second));
    }
  }
  CHECK_THROWS_AS(lesson06::forge_pair(2048, 8), std::invalid_argument);
}

TEST_CASE("unknown blocks and sequences are named, and nothing changes") {
  BlockManager manager(4, 4);
  const auto a = run(manager, range(0, 6));
  CHECK_THROWS_WITH_AS(manager.free_sequence(7), doctest::Contains("no sequence 7"),
                       std::out_of_range);
  CHECK_THROWS_WITH_AS(manager.index().content(4), doctest::Contains("no block 4"),
                       std::out_of_range);
  CHECK_THROWS_AS(manager.publish(a.seq, range(0, 5)), std::invalid_argument);
  lesson06::BlockPool pool(2);
  CHECK_THROWS_WITH_AS(pool.release(1), doctest::Contains("block 1"), std::logic_error);
  CHECK_THROWS_AS(pool.take(2), std::out_of_range);
  PrefixIndex index(2);
  index.publish(0, 1, {}, range(0, 4));
  CHECK_THROWS_WITH_AS(index.publish(0, 2, {}, range(0, 4)), doctest::Contains("block 0"),
                       std::logic_error);
  CHECK_FALSE(index.forget(1));
  manager.check();
  index.check();
}
