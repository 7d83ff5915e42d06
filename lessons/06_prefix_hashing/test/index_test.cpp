// Small cases of the index that can be checked by eye, in the order of the exercise's steps 1 to 3.

#include <doctest/doctest.h>

#include <optional>
#include <stdexcept>

#include "prefix_index.h"
#include "requests.h"
#include "tests/support/readable.h"

namespace {

using lesson06::BlockKey;
using lesson06::CachedBlock;
using lesson06::ExtraKey;
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

}  // namespace

TEST_CASE("equal content is equal tokens, equal extra keys and an equal parent") {
  const ExtraKeys salt{{ExtraKey::Kind::kSalt, "s"}}, other{{ExtraKey::Kind::kSalt, "t"}};
  CHECK(same_content(key(7, kOneTwo, 5, salt), key(7, kOneTwo, 5, salt)));
  const Tokens one_two = kOneTwo;  // the same in other memory
  const ExtraKeys salt_again = salt;
  BlockKey numbered = key(7, one_two, 5, salt_again);
  numbered.prefix = 6;  // the block's own number is no part of its content
  CHECK(same_content(key(7, kOneTwo, 5, salt), numbered));
  CHECK_FALSE(same_content(key(7, kOneTwo, 5), key(7, Tokens{1, 3}, 5)));
  CHECK_FALSE(same_content(key(7, kOneTwo, 5), key(7, Tokens{2, 1}, 5)));
  const Tokens sixteen(16, 1);
  Tokens last_differs = sixteen;
  last_differs.back() = 2;
  CHECK_FALSE(same_content(key(7, sixteen, 5), key(7, last_differs, 5)));
  const Tokens one_two_three{1, 2, 3};  // longer, and shorter
  CHECK_FALSE(same_content(key(7, kOneTwo, 5), key(7, one_two_three, 5)));
  CHECK_FALSE(same_content(key(7, one_two_three, 5), key(7, kOneTwo, 5)));
  CHECK_FALSE(same_content(key(7, kOneTwo, 5), key(7, kOneTwo, 6)));
  CHECK_FALSE(same_content(key(7, kOneTwo, 6), key(7, kOneTwo, 5)));
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
  const PrefixId third = index.insert(1, key(9, kFiveSix, first));
  CHECK(third != second);  // another block after the same parent
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
  CHECK(index.block(3)->prefix == number);
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
  const PrefixId first = mixed.insert(0, key(15, kThreeFour));
  mixed.insert(2, key(7, kOneTwo));
  mixed.insert(1, key(7, kOneTwo));
  CHECK(found_in(mixed, key(7, kOneTwo)) == 2);
  CHECK(mixed.insert(3, key(7, Tokens{0, 0})) != first);  // what is not written yet is not equal
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
  const ExtraKeys salt{{ExtraKey::Kind::kSalt, "s"}};
  index.insert(0, key(7, kOneTwo, {}, salt));
  index.insert(2, key(8, kFiveSix));
  CHECK_THROWS_AS(index.insert(0, key(8, kThreeFour)), std::logic_error);
  CHECK_THROWS_AS(index.insert(1, key(8, Tokens{1})), std::invalid_argument);
  CHECK_THROWS_AS(index.insert(1, key(8, Tokens{1, 2, 3})), std::invalid_argument);
  CHECK(index.block(1) == nullptr);  // nothing has changed
  CHECK(index.size() == 2);
  CHECK(found_in(index, key(7, kOneTwo, {}, salt)) == 0);
  CHECK(found_in(index, key(8, kFiveSix)) == 2);
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
  for (const ExtraKeys& keys : {other, ExtraKeys{}}) {
    INFO("erase() has taken block 0 out, and insert() gives it another key");
    CHECK(index.erase(0) == 7);
    index.insert(0, key(7, kOneTwo, {}, keys));
    CHECK(found_in(index, key(7, kOneTwo, 5, salt)) == -1);
    CHECK(found_in(index, key(7, kOneTwo, {}, keys)) == 0);
  }
  PrefixIndex numbered(4, 2);
  BlockKey zero = key(7, kOneTwo);
  zero.prefix = 0;  // a number like any other, as often as the key brings it
  for (int i = 0; i < 2; ++i) {
    CHECK(numbered.insert(0, zero) == 0);
    numbered.erase(0);
  }
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
