// Small cases that can be checked by eye, in the order of the exercise's steps 4 to 6: hashes,
// names and lookups.

#include <doctest/doctest.h>

#include <optional>
#include <stdexcept>
#include <vector>

#include "cli/hashers.h"
#include "kv_cache_manager.h"
#include "requests.h"
#include "tests/support/readable.h"

namespace {

using lesson06::BlockPool;
using lesson06::CachedBlock;
using lesson06::ExtraKey;
using lesson06::hash_chain;
using namespace lesson06_test;

int num_hashed = 0;

/// The hashes of all full blocks of 4 tokens.
std::vector<uint64_t> hashes_after(BlockHashes& hashes, const Tokens& tokens) {
  hashes.extend(tokens, 4, {.hash = [](auto parent, auto block, auto extra_keys) {
                  ++num_hashed;
                  return lesson06::xxh64_block(parent, block, extra_keys);
                }});
  return hashes.all();
}

/// The hashes under which the request's blocks can be found; those that cannot are left out.
std::vector<uint64_t> hashes_of(const KvCacheManager& manager, int64_t id) {
  std::vector<uint64_t> hashes;
  for (const int32_t block : manager.table(id).block_ids()) {
    const CachedBlock* const cached = manager.pool().index().block(block);
    if (cached != nullptr) hashes.push_back(cached->hash);
  }
  return hashes;
}

}  // namespace

TEST_CASE("a chain of hashes: each full block's is over the one before it, and is made once") {
  using lesson06::xxh64_block;
  const ExtraKeys salt{{ExtraKey::Kind::kSalt, "s"}};
  for (const ExtraKeys& keys : {ExtraKeys{}, salt}) {
    const uint64_t first = xxh64_block({}, range(0, 4), keys);
    const uint64_t second = xxh64_block(first, range(4, 8), keys);
    BlockHashes hashes(keys);
    num_hashed = 0;
    CHECK(hashes_after(hashes, range(0, 3)).empty());
    CHECK(hashes_after(hashes, range(0, 4)) == std::vector{first});
    CHECK(hashes_after(hashes, range(0, 5)) == std::vector{first});  // nothing is new
    CHECK(hashes_after(hashes, range(0, 12)) ==
          std::vector{first, second, xxh64_block(second, range(8, 12), keys)});
    CHECK(hashes_after(hashes, range(0, 4)).size() == 3);  // fewer tokens: nothing is forgotten
    CHECK(hashes_after(hashes, range(0, 12)).size() == 3);
    CHECK(num_hashed == 3);
  }
}

TEST_CASE("two requests are hashed in turns, and each has its own chain") {
  BlockHashes one, two;
  hashes_after(one, range(0, 4));
  hashes_after(two, range(50, 54));
  CHECK(hashes_after(one, range(0, 8)) == hash_chain(range(0, 8), 4, {}));
  CHECK(hashes_after(two, range(50, 58)) == hash_chain(range(50, 58), 4, {}));
}

TEST_CASE("a parent whose hash is 0 is a parent") {
  BlockHashes hashes;
  INFO("a first block's hash is 0, and any other's is its parent's plus 1");
  hashes.extend(range(0, 3), 1, {.hash = [](auto parent, auto, auto) {
                  return parent ? *parent + 1 : uint64_t{0};
                }});
  CHECK(hashes.all() == std::vector<uint64_t>{0, 1, 2});
}

TEST_CASE("full blocks get their names when they are computed") {
  BlockPool pool(8, 4);
  KvCacheManager manager(pool);
  const Tokens tokens = range(0, 10);
  const std::vector<uint64_t> chain = hash_chain(tokens, 4, {});
  REQUIRE(manager.allocate_slots(1, 10));
  cache_blocks(manager, 1, tokens, 3);
  CHECK(hashes_of(manager, 1).empty());
  cache_blocks(manager, 1, tokens, 4);
  CHECK(hashes_of(manager, 1) == std::vector{chain[0]});
  cache_blocks(manager, 1, tokens, 10);
  CHECK(hashes_of(manager, 1) == chain);
  cache_blocks(manager, 1, tokens, 10);  // nothing is new
  CHECK(pool.index().size() == 2);
  REQUIRE(manager.allocate_slots(2, 10));
  cache_blocks(manager, 2, tokens, 10);  // blocks with the same content
  CHECK(hashes_of(manager, 2) == chain);
  CHECK(pool.index().size() == 4);
}

TEST_CASE("a pass of a long request names its new blocks, and looks at no other") {
  constexpr int kTokens = 1 << 18;
  BlockPool pool(kTokens, 1);
  KvCacheManager manager(pool);
  REQUIRE(manager.allocate_slots(1, kTokens));
  const Tokens tokens = range(0, kTokens);
  BlockHashes hashes;
  for (int computed = 1; computed <= kTokens; ++computed) {
    manager.cache_blocks(1, tokens, hashes, computed);
  }
  CHECK(pool.index().size() == kTokens);
}

TEST_CASE("a block's parent is the block before it") {
  BlockPool pool(8, 4);
  KvCacheManager manager(pool);
  REQUIRE(manager.allocate_slots(1, 8));
  cache_blocks(manager, 1, range(0, 8), 8);
  const Ids table = table_of(manager, 1);
  const CachedBlock *const first = pool.index().block(table[0]), *const second =
                                                                     pool.index().block(table[1]);
  REQUIRE(first != nullptr);
  REQUIRE(second != nullptr);
  CHECK(first->parent == std::nullopt);
  CHECK(second->parent == first->prefix);
  CHECK(second->prefix != first->prefix);
  CHECK(Tokens(pool.index().tokens(table[1]).begin(), pool.index().tokens(table[1]).end()) ==
        range(4, 8));
}

TEST_CASE("equal blocks after different beginnings have different names") {
  BlockPool pool(8, 4);
  KvCacheManager manager(pool);
  const Tokens one{1, 2, 3, 4, 9, 9, 9, 9}, two{5, 6, 7, 8, 9, 9, 9, 9};
  REQUIRE(manager.allocate_slots(1, 8));
  REQUIRE(manager.allocate_slots(2, 8));
  cache_blocks(manager, 1, one, 8);
  cache_blocks(manager, 2, two, 8);
  CHECK(hashes_of(manager, 1) == hash_chain(one, 4, {}));
  CHECK(hashes_of(manager, 2) == hash_chain(two, 4, {}));
  CHECK(pool.index().block(table_of(manager, 1)[1])->prefix !=
        pool.index().block(table_of(manager, 2)[1])->prefix);
}

TEST_CASE("extra keys are part of the hash and of the comparison") {
  const ExtraKeys salt{{ExtraKey::Kind::kSalt, "s"}};
  for (const int bits : {64, 0}) {  // without a hash the comparison alone decides
    CAPTURE(bits);
    BlockPool pool(8, 4);
    KvCacheManager manager(pool, {.hasher = lesson06::narrow_hasher(bits)});
    REQUIRE(manager.allocate_slots(1, 4));
    REQUIRE(manager.allocate_slots(2, 4));
    write(manager, 1, range(0, 4));
    write(manager, 2, range(0, 4), salt);
    const uint64_t hash = bits == 0 ? 0 : lesson06::xxh64_block({}, range(0, 4), salt);
    CHECK(hashes_of(manager, 2) == std::vector{hash});
    const auto prefix_of = [&](int64_t id) {
      return pool.index().block(table_of(manager, id)[0])->prefix;
    };
    INFO("requests 1 and 2 have the same tokens, and 2 has a salt");
    CHECK(prefix_of(1) != prefix_of(2));
  }
}

TEST_CASE("without caching nothing gets a name") {
  BlockPool pool(8, 4);
  KvCacheManager manager(pool, {.caching = false});
  REQUIRE(manager.allocate_slots(1, 8));
  BlockHashes hashes;
  manager.cache_blocks(1, range(0, 8), hashes, 8);
  CHECK(pool.index().size() == 0);
  CHECK(hashes.all().empty());  // and nothing is hashed
}

TEST_CASE("candidates that were refused are counted over the whole run") {
  BlockPool pool(8, 4);
  KvCacheManager manager(pool, {.hasher = lesson06::narrow_hasher(0)});  // every hash is 0
  run(manager, 1, range(0, 9));
  INFO("block 0 is found at once, block 1 after block 0, and block 2 is neither");
  const auto computed = look_up(manager, range(0, 13));
  CHECK(computed.num_tokens == 8);
  CHECK(computed.num_refused == 0 + 1 + 2);
}

TEST_CASE("without caching nothing is looked up") {
  BlockPool pool(8, 4);
  KvCacheManager with(pool), without(pool, {.caching = false});
  run(with, 1, range(0, 9));
  CHECK(look_up(with, range(0, 9)).num_tokens == 8);
  BlockHashes hashes;
  const auto computed = without.get_computed_blocks(range(0, 9), hashes);
  CHECK(computed.num_tokens == 0);
  CHECK(computed.num_queried == 0);
  CHECK(hashes.all().empty());  // and nothing is hashed
}

TEST_CASE("more tokens computed than there are, or than have slots, are refused") {
  BlockPool pool(8, 4);
  KvCacheManager manager(pool);
  REQUIRE(manager.allocate_slots(1, 6));
  CHECK_THROWS_AS(cache_blocks(manager, 1, range(0, 5), 6), std::invalid_argument);
  BlockHashes hashes;
  CHECK_THROWS_AS(manager.cache_blocks(1, range(0, 9), hashes, 8), std::invalid_argument);
  CHECK(hashes.all().empty());  // nothing has changed
  CHECK_THROWS_AS(cache_blocks(manager, 7, range(0, 4), 4), std::out_of_range);
  CHECK(pool.index().size() == 0);
  BlockPool other(8, 4);
  KvCacheManager without(other, {.caching = false});
  REQUIRE(without.allocate_slots(1, 6));
  CHECK_THROWS_AS(without.cache_blocks(1, range(0, 9), hashes, 8), std::invalid_argument);
}
