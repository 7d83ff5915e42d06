// Tests of lesson 13's names and values.

#include "tests/support/readable.h"  // before the checks

#include <array>
#include <numeric>
#include <set>
#include <vector>

#include "block_name.h"
#include "lessons/12_file_tier/checksum_blocks.h"

using namespace lesson13;
using lesson06::ExtraKey;

namespace {

std::vector<int32_t> some_tokens(int count, int first = 1) {
  std::vector<int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<BlockName> names_of(uint64_t fingerprint, std::span<const int32_t> tokens,
                                int block_size, const ExtraKeys& keys = {}) {
  std::vector<BlockName> names;
  extend_names(names, root_name(fingerprint, keys), tokens, block_size);
  return names;
}

/// A block and its value.
struct Stored {
  explicit Stored(const std::string& secret = {}) {
    for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<std::byte>(i * 7 + 1);
    format = {.fingerprint = 42, .bytes_per_block = content.size(), .secret = secret};
    value = format.encode(name, tokens, lesson12::checksum_of(content), content);
  }
  std::optional<uint64_t> decoded(std::string_view bytes) {
    return format.decode(bytes, name, tokens, back);
  }
  std::vector<int32_t> tokens = some_tokens(4);
  BlockName name = name_of(root_name(42), tokens);
  std::array<std::byte, 64> content{}, back{};
  ValueFormat format;
  std::string value;
};

}  // namespace

TEST_CASE("a name is the SHA-256 of the parent's name and the tokens") {
  // printf 'root\x2a\0\0\0\0\0\0\0' | sha256sum, and so on.
  const std::string root = key_of(root_name(42));
  CHECK(root == "kv1:cabed291ae1653c4794cb4849681652fbda4fadd9a90532cf7ff83cc83b522a5");
  CHECK(key_of(name_of(root_name(42), some_tokens(2))) ==
        "kv1:e0800b2970911267f9fe50a73b2948ae433fdc156d67bda727528d7fd887e6ec");
}

TEST_CASE("names depend on the model, the salt and every token before, and on nothing else") {
  const auto tokens = some_tokens(12);
  const auto names = names_of(1, tokens, 4);
  REQUIRE(names.size() == 3);
  CHECK(names[2] == name_of(names[1], std::span(tokens).last(4)));
  auto grown = names_of(1, std::span(tokens).first(7), 4);
  CHECK(grown.size() == 1);
  extend_names(grown, root_name(1), tokens, 4);
  for (size_t i = 0; i < 3; ++i) CHECK(key_of(grown.at(i)) == key_of(names[i]));
  extend_names(grown, root_name(1), std::span(tokens).first(7), 4);  // all of them are there
  CHECK(grown == names);
  std::set<BlockName> all(names.begin(), names.end());
  const auto check_new = [&](const std::vector<BlockName>& others) {
    for (const BlockName& name : others) CHECK(all.insert(name).second);
  };
  check_new(names_of(2, tokens, 4));
  check_new(names_of(1, tokens, 2));
  check_new(names_of(1, tokens, 4, {{ExtraKey::Kind::kSalt, "a"}}));
  check_new(names_of(1, tokens, 4, {{ExtraKey::Kind::kSalt, "b"}}));
  auto changed = tokens;
  changed[0] = 99;
  check_new(names_of(1, changed, 4));  // the second block, too: its parent is another
}

TEST_CASE("a salt may be shared, an adapter or an image may not") {
  CHECK(can_be_shared({}));
  CHECK(can_be_shared(ExtraKeys{{ExtraKey::Kind::kSalt, "tenant"}}));
  CHECK_FALSE(can_be_shared(ExtraKeys{{ExtraKey::Kind::kAdapter, "1"}}));
  CHECK_FALSE(can_be_shared(
      ExtraKeys{{ExtraKey::Kind::kContent, "image", 0}, {ExtraKey::Kind::kSalt, "tenant"}}));
}

TEST_CASE("a value gives back the content and its checksum") {
  for (const char* secret : {"", "common"}) {
    Stored stored(secret);
    CHECK(stored.decoded(stored.value) == lesson12::checksum_of(stored.content));
    CHECK(stored.back == stored.content);
    const std::string wrong = stored.format.encode(stored.name, stored.tokens, 0, stored.content);
    CHECK_FALSE(stored.decoded(wrong).has_value());
  }
}

TEST_CASE("every changed bit of a value is found") {
  for (const char* secret : {"", "secret 84"}) {  // its HMAC here begins with a zero
    Stored stored(secret);
    for (size_t bit = 0; bit < 8 * stored.value.size(); ++bit) {
      std::string bad = stored.value;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
      CAPTURE(bit);
      REQUIRE_FALSE(stored.decoded(bad).has_value());
    }
  }
}

TEST_CASE("a value of any other length is refused") {
  Stored stored;
  for (size_t size = 0; size < stored.value.size(); ++size) {
    CHECK_FALSE(stored.decoded(std::string_view(stored.value).substr(0, size)).has_value());
  }
  CHECK_FALSE(stored.decoded({}).has_value());
  CHECK_FALSE(stored.decoded(stored.value + "x").has_value());
  CHECK_FALSE(stored.decoded(stored.value + std::string(32, 'x')).has_value());  // as long as a sum
}

TEST_CASE("a value under another name, of other tokens or of another model is refused") {
  Stored stored;
  Stored other;
  other.name = name_of(stored.name, stored.tokens);
  CHECK_FALSE(other.decoded(stored.value).has_value());
  Stored tokens;
  tokens.tokens[3] = 99;
  CHECK_FALSE(tokens.decoded(stored.value).has_value());
  Stored model;
  model.format.fingerprint = 43;
  CHECK_FALSE(model.decoded(stored.value).has_value());
}

TEST_CASE("poisoned content with the right sums is believed, unless the servers have a secret") {
  Stored stored;
  std::array<std::byte, 64> poison{};
  const auto forged = [&](const ValueFormat& by) {
    return by.encode(stored.name, stored.tokens, lesson12::checksum_of(poison), poison);
  };
  CHECK(stored.decoded(forged(stored.format)).has_value());
  Stored secret("common");
  CHECK_FALSE(secret.decoded(forged(stored.format)).has_value());
  ValueFormat guess = secret.format;
  guess.secret = "another";
  CHECK_FALSE(secret.decoded(forged(guess)).has_value());
  CHECK(secret.decoded(forged(secret.format)).has_value());
}
