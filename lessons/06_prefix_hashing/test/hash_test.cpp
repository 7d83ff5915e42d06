// Tests of lesson 06's hashes: what they cover, what cannot be imitated, what can be forged.

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "cli/forgery.h"
#include "cli/hashers.h"
#include "common/error.h"
#include "requests.h"

namespace {

using lesson06::ExtraKey;
using lesson06::ExtraKeys;
using lesson06::hash_chain;
using lesson06::xxh64_block;
using lesson06_test::range;
using lesson06_test::Tokens;

}  // namespace

// Computed without this code: xxh64() of tools/figures/lesson06.py, which is written from the
// definition of XXH64, over the bytes that block_hash.h describes, put together by struct.pack:
// "<Q" the parent, "<16i" the tokens, and for each key "<QQQ" kind, offset, length, then the value.
TEST_CASE("hashes of blocks are those of an independent computation") {
  CHECK(xxh64_block({}, range(0, 16)) == 0x8a44256aed976c78);
  CHECK(xxh64_block(0x8a44256aed976c78, range(16, 32)) == 0x215105cee679379b);
  CHECK(xxh64_block({}, range(16, 32)) == 0x97e285afaac12d59);
  CHECK(xxh64_block({}, range(1, 5)) == 0x27f0147e6ec514a6);
  CHECK(xxh64_block(0x27f0147e6ec514a6, range(5, 9)) == 0xec11742426488122);
  CHECK(xxh64_block(7, range(0, 4),
                    ExtraKeys{{ExtraKey::Kind::kAdapter, "lora"},
                              {ExtraKey::Kind::kContent, "image", 3},
                              {ExtraKey::Kind::kSalt, ""}}) == 0x421e6393f70aa5c8);
  CHECK(xxh64_block(7, Tokens{-1, 2, 3, 4},
                    ExtraKeys{{ExtraKey::Kind::kSalt, std::string("s\0t", 3)}}) ==
        0x897751860f6ff864);
  CHECK(hash_chain(range(0, 40), 16, {}) ==
        std::vector<uint64_t>{0x8a44256aed976c78, 0x215105cee679379b});
  for (const int n : {0, 1, 15}) CHECK(hash_chain(range(0, n), 16, {}).empty());
}

TEST_CASE("no parent is no value: a parent of zeros or ones is another one") {
  const Tokens tokens = range(0, 16);
  CHECK(xxh64_block({}, tokens) != xxh64_block(0, tokens));
  CHECK(xxh64_block({}, tokens) != xxh64_block(~uint64_t{0}, tokens));
}

TEST_CASE("a hash is chosen by its name") {
  const Tokens tokens = range(0, 16);
  const auto named = [&](const char* name) { return lesson06::hasher_of(name)({}, tokens, {}); };
  CHECK(named("xxh64") == xxh64_block({}, tokens));
  // SHA-256 of these 64 bytes begins so (sha256sum says the same).
  CHECK(named("sha256") == lesson06::sha256_block({}, tokens));
  CHECK(lesson06::sha256_block({}, {}) == 0x141cfc9842c4b0e3);
  CHECK(named("3") == (xxh64_block({}, tokens) & 7));
  CHECK(named("0") == 0);
  CHECK(named("64") == xxh64_block({}, tokens));
  for (const char* name : {"", "md5", "65", "-1", "3x"}) {
    CHECK_THROWS_WITH_AS(lesson06::hasher_of(name), doctest::Contains("wanted xxh64"),
                         kv::UserError);
  }
}

// vLLM #44701: an adapter's name and a salt of the same text gave the same key.
TEST_CASE("no key's text can imitate another key, a kind, an offset, or tokens") {
  const auto hash = [](const ExtraKeys& keys) { return xxh64_block(7, range(0, 4), keys); };
  const auto salt = [](const std::string& value) { return ExtraKey{ExtraKey::Kind::kSalt, value}; };
  CHECK(hash({salt("ab"), salt("c")}) != hash({salt("a"), salt("bc")}));
  CHECK(hash({salt("ab")}) != hash({salt("a"), salt("b")}));
  CHECK(hash({salt("")}) != hash({}));
  CHECK(hash({salt(std::string("a\0", 2))}) != hash({salt("a")}));
  CHECK(hash({salt("x")}) != hash({ExtraKey{ExtraKey::Kind::kAdapter, "x"}}));
  CHECK(hash({ExtraKey{ExtraKey::Kind::kContent, "x", 3}}) !=
        hash({ExtraKey{ExtraKey::Kind::kContent, "x", 4}}));
  // A value that spells out the end of itself and the beginning of another key.
  const auto number = [](char value) { return std::string{value, 0, 0, 0, 0, 0, 0, 0}; };
  const char kind = static_cast<char>(ExtraKey::Kind::kSalt);
  CHECK(hash({salt("a" + number(kind) + number(0) + "b")}) != hash({salt("a"), salt("b")}));
  CHECK(hash({salt("a" + number(kind) + number(0) + number(1) + "b")}) !=
        hash({salt("a"), salt("b")}));
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
      REQUIRE(std::ssize(*tokens) == c.block_size);
      for (const int32_t token : *tokens) CHECK((token >= 0 && token < c.vocab));
    }
    for (const uint64_t parent : {uint64_t{0}, uint64_t{0x1122334455667788}, ~uint64_t{0}}) {
      CHECK(xxh64_block(parent, pair->first) == xxh64_block(parent, pair->second));
    }
  }
  CHECK_THROWS_AS(lesson06::forge_pair(2048, 8), std::invalid_argument);
}
