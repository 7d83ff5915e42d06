// Small cases that can be checked by eye, in the order of the exercise's steps.

#include <doctest/doctest.h>

#include <optional>
#include <stdexcept>
#include <vector>

#include "cli/hashers.h"
#include "kv_cache_manager.h"
#include "requests.h"
#include "tests/support/readable.h"

namespace {

using lesson06::BlockKey;
using lesson06::BlockPool;
using lesson06::CachedBlock;
using lesson06::ExtraKey;
using lesson06::hash_chain;
using lesson06::PrefixId;
using lesson06::PrefixIndex;
using lesson06::same_content;
using namespace lesson06_test;

BlockKey key(uint64_t hash, const Tokens& tokens, std::optional<PrefixId> parent = {},
             const ExtraKeys& extra_keys = {}) {
  return {.hash = hash, .parent = parent, .tokens = tokens, .extra_keys = extra_keys};
}

const Tokens kOneTwo{1, 2}, kThreeFour{3, 4}, kFiveSix{5, 6};

/// The block that is found; -1 if there is none.
int32_t found_in(const PrefixIndex& index, const BlockKey& key) {
  const CachedBlock* const block = index.find(key);
  return block == nullptr ? -1 : block->id;
}

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

TEST_CASE("equal content is equal tokens, equal extra keys and an equal parent") {
  const ExtraKeys salt{{ExtraKey::Kind::kSalt, "s"}}, other{{ExtraKey::Kind::kSalt, "t"}};
  CHECK(same_content(key(7, kOneTwo, 5, salt), key(7, kOneTwo, 5, salt)));
  CHECK_FALSE(same_content(key(7, kOneTwo, 5), key(7, Tokens{1, 3}, 5)));
  CHECK_FALSE(same_content(key(7, kOneTwo, 5), key(7, Tokens{2, 1}, 5)));
  const Tokens one_two_three{1, 2, 3};  // longer, and shorter
  CHECK_FALSE(same_content(key(7, kOneTwo, 5), key(7, one_two_three, 5)));
  CHECK_FALSE(same_content(key(7, one_two_three, 5), key(7, kOneTwo, 5)));
  CHECK_FALSE(same_content(key(7, kOneTwo, 5), key(7, kOneTwo, 6)));
  CHECK_FALSE(same_content(key(7, kOneTwo, 5, salt), key(7, kOneTwo, 5, other)));
  CHECK_FALSE(same_content(key(7, kOneTwo, 5, salt), key(7, kOneTwo, 5)));
  CHECK_FALSE(same_content(key(7, kOneTwo, 5), key(7, kOneTwo, 5, salt)));
  const ExtraKeys adapter{{ExtraKey::Kind::kAdapter, "s"}};
  const ExtraKeys image{{ExtraKey::Kind::kContent, "s", 3}};
  const ExtraKeys later_image{{ExtraKey::Kind::kContent, "s", 4}};
  CHECK_FALSE(same_content(key(7, kOneTwo, 5, salt), key(7, kOneTwo, 5, adapter)));
  const ExtraKeys two{adapter[0], salt[0]}, two_others{adapter[0], other[0]};
  CHECK_FALSE(same_content(key(7, kOneTwo, 5, two), key(7, kOneTwo, 5, two_others)));
  CHECK_FALSE(same_content(key(7, kOneTwo, 5, image), key(7, kOneTwo, 5, later_image)));
  CHECK(same_content(key(7, kOneTwo), key(7, kOneTwo)));
  CHECK_FALSE(same_content(key(7, kOneTwo), key(7, kOneTwo, 0)));  // no parent is not parent 0
}

TEST_CASE("what was put into the index is found") {
  PrefixIndex index(/*num_ids=*/4, /*block_size=*/2);
  CHECK(found_in(index, key(7, kOneTwo)) == -1);
  const PrefixId first = index.insert(3, key(7, kOneTwo));
  CHECK(found_in(index, key(7, kOneTwo)) == 3);
  CHECK(found_in(index, key(8, kThreeFour)) == -1);
  const PrefixId second = index.insert(0, key(8, kThreeFour, first));
  CHECK(found_in(index, key(8, kThreeFour, first)) == 0);
  CHECK(found_in(index, key(7, kOneTwo)) == 3);
  CHECK(second != first);
  CHECK(index.size() == 2);
  index.check();
}

TEST_CASE("blocks of one bucket are all found") {
  PrefixIndex index(4, 2);  // 8 buckets: hashes 7, 15 and 23 have one remainder
  index.insert(0, key(7, kOneTwo));
  index.insert(2, key(15, kThreeFour));
  index.insert(1, key(23, kFiveSix));
  CHECK(found_in(index, key(7, kOneTwo)) == 0);
  CHECK(found_in(index, key(15, kThreeFour)) == 2);
  CHECK(found_in(index, key(23, kFiveSix)) == 1);
  CHECK(found_in(index, key(15, kOneTwo)) == -1);
  int64_t num_refused = 0;
  CHECK(index.find(key(23, kFiveSix), &num_refused) != nullptr);
  CHECK(num_refused == 0);  // a block with another hash was no candidate
  index.check();
}

TEST_CASE("an equal hash with other content is refused, and counted") {
  PrefixIndex index(4, 2);
  index.insert(0, key(7, kOneTwo));
  index.insert(1, key(7, kThreeFour));
  int64_t num_refused = 0;
  const CachedBlock* const found = index.find(key(7, kThreeFour), &num_refused);
  REQUIRE(found != nullptr);
  CHECK(found->id == 1);
  CHECK(num_refused == 1);
  CHECK(index.find(key(7, kFiveSix), &num_refused) == nullptr);
  CHECK(num_refused == 3);
}

TEST_CASE("blocks that differ in their extra keys alone are told apart") {
  PrefixIndex index(4, 2);
  const ExtraKeys salt{{ExtraKey::Kind::kSalt, "s"}}, other{{ExtraKey::Kind::kSalt, "t"}};
  index.insert(0, key(7, kOneTwo, {}, salt));
  CHECK(found_in(index, key(7, kOneTwo, {}, salt)) == 0);
  CHECK(found_in(index, key(7, kOneTwo, {}, other)) == -1);
  CHECK(found_in(index, key(7, kOneTwo)) == -1);
  index.insert(1, key(7, kOneTwo, {}, other));
  CHECK(found_in(index, key(7, kOneTwo, {}, other)) == 1);
}

TEST_CASE("an index that trusts its hash finds any block with it") {
  PrefixIndex index(4, 2, PrefixIndex::Check::kHashOnly);
  const PrefixId number = index.insert(2, key(7, kOneTwo));
  CHECK(found_in(index, key(7, kThreeFour)) == 2);
  CHECK(index.insert(1, key(7, kThreeFour)) == number);  // that of the block it takes for equal
  CHECK(found_in(index, key(15, kOneTwo)) == -1);        // the same bucket, another hash
}

TEST_CASE("equal blocks have one number, and the oldest of them is found") {
  PrefixIndex index(4, 2);
  const PrefixId number = index.insert(2, key(7, kOneTwo));
  CHECK(index.insert(0, key(7, kOneTwo)) == number);
  CHECK(index.insert(3, key(7, kOneTwo)) == number);
  CHECK(found_in(index, key(7, kOneTwo)) == 2);
  CHECK(index.insert(1, key(7, kOneTwo, number)) != number);  // after a parent: another prefix
  index.check();
  PrefixIndex other(4, 2);
  BlockKey brings = key(7, kOneTwo);
  brings.prefix = 41;  // its number
  CHECK(other.insert(0, brings) == 41);
  brings.prefix = 42;
  CHECK(other.insert(1, brings) == 41);  // the number of an equal block comes first
  PrefixIndex mixed(4, 2);
  INFO("a bucket has block 0 with another hash, then the equal blocks 2 and 1");
  mixed.insert(0, key(15, kThreeFour));
  mixed.insert(2, key(7, kOneTwo));
  mixed.insert(1, key(7, kOneTwo));
  CHECK(found_in(mixed, key(7, kOneTwo)) == 2);
}

TEST_CASE("a block is put into a large index and found, and no other is looked at") {
  constexpr int kBlocks = 1 << 18;
  PrefixIndex index(kBlocks, 1);
  int num_found = 0;
  for (int32_t id = 0; id < kBlocks; ++id) {
    const Tokens tokens{id};
    const BlockKey key = ::key(static_cast<uint64_t>(id), tokens);
    index.insert(id, key);
    num_found += found_in(index, key) == id;
  }
  CHECK(num_found == kBlocks);
}

TEST_CASE("a block that is cached already, or not full, is refused") {
  PrefixIndex index(4, 2);
  index.insert(0, key(7, kOneTwo));
  CHECK_THROWS_AS(index.insert(0, key(8, kThreeFour)), std::logic_error);
  CHECK_THROWS_AS(index.insert(1, key(8, Tokens{1})), std::invalid_argument);
  CHECK_THROWS_AS(index.insert(1, key(8, Tokens{1, 2, 3})), std::invalid_argument);
  CHECK(index.block(1) == nullptr);  // nothing has changed
  CHECK(index.size() == 1);
  CHECK(found_in(index, key(7, kOneTwo)) == 0);
  index.check();
}

TEST_CASE("a block is taken out, and the others of its bucket stay") {
  for (const int32_t id : {0, 1, 2}) {  // the first of its chain, the middle one, the last
    CAPTURE(id);
    PrefixIndex index(4, 2);
    const BlockKey keys[] = {key(7, kOneTwo), key(15, kThreeFour), key(23, kFiveSix)};
    for (int32_t block = 0; block < 3; ++block) index.insert(block, keys[block]);
    CHECK(index.erase(id) == keys[id].hash);
    for (int32_t block = 0; block < 3; ++block) {
      CHECK(found_in(index, keys[block]) == (block == id ? -1 : block));
    }
    CHECK(index.size() == 2);
    index.check();
    CHECK(index.erase(id) == std::nullopt);  // it is not there any more
    index.insert(id, keys[id]);
    CHECK(found_in(index, keys[id]) == id);
    index.check();
  }
}

TEST_CASE("a block with a hash of 0 is taken out like any other") {
  PrefixIndex index(4, 2);
  index.insert(1, key(0, kOneTwo));
  CHECK(index.erase(1) == 0);
  CHECK(index.erase(1) == std::nullopt);
}

TEST_CASE("the number of a block that was taken out is never given again") {
  PrefixIndex index(4, 2);
  INFO("insert() gives the numbers, and erase() gives none back");
  const PrefixId first = index.insert(0, key(7, kOneTwo));
  const PrefixId second = index.insert(1, key(8, kThreeFour));
  CHECK(index.erase(1) == 8);
  const PrefixId third = index.insert(1, key(9, kFiveSix));
  CHECK(third != first);
  CHECK(third != second);
  CHECK(index.erase(0) == 7);
  CHECK(index.erase(1) == 9);
  const PrefixId fourth = index.insert(2, key(7, kOneTwo));  // into an empty index
  CHECK(fourth != first);
  CHECK(fourth != second);
  CHECK(fourth != third);
}

TEST_CASE("blocks are taken out of a large index without a search through it") {
  constexpr int kBlocks = 1 << 18;
  PrefixIndex index(kBlocks, 1);
  const Tokens tokens{5};
  for (int32_t id = 0; id < kBlocks; ++id) index.insert(id, key(static_cast<uint64_t>(id), tokens));
  for (int32_t id = 0; id < kBlocks; ++id) index.erase(id);
  CHECK(index.size() == 0);
}

TEST_CASE("a block that comes back has nothing of the key that it had") {
  PrefixIndex index(4, 2);
  const ExtraKeys salt{{ExtraKey::Kind::kSalt, "s"}}, other{{ExtraKey::Kind::kSalt, "t"}};
  index.insert(0, key(7, kOneTwo, 5, salt));
  CHECK(index.erase(0) == 7);
  INFO("erase() has taken block 0 out, and insert() gives it another key");
  index.insert(0, key(7, kOneTwo, {}, other));
  CHECK(found_in(index, key(7, kOneTwo, 5, salt)) == -1);
  CHECK(found_in(index, key(7, kOneTwo, {}, other)) == 0);
  CHECK(index.block(0)->extra_keys.size() == 1);
  index.check();
}

TEST_CASE("of equal blocks only the one that is named is taken out") {
  PrefixIndex index(4, 2);
  const PrefixId number = index.insert(0, key(7, kOneTwo));
  index.insert(1, key(7, kOneTwo));
  CHECK(index.erase(0) == 7);
  CHECK(found_in(index, key(7, kOneTwo)) == 1);
  CHECK(index.insert(2, key(7, kOneTwo)) == number);
  CHECK(index.erase(2) == 7);  // the younger one
  CHECK(index.block(2) == nullptr);
  CHECK(index.block(1) != nullptr);
  CHECK(found_in(index, key(7, kOneTwo)) == 1);
  index.check();
}

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
