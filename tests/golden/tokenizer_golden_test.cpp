// The tokenizer of models/tiny against Hugging Face's library: 10,000 strings, token by token.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qwen3/tokenizer.h"
#include "tests/golden/golden_values.h"

namespace {

/// Sequences that lie one after another: item i is flat[offsets[i]] .. flat[offsets[i + 1] - 1].
template <typename T>
struct Packed {
  std::vector<T> flat;
  std::vector<int32_t> offsets;

  Packed(const kv::SafetensorsFile& file, const std::string& items, const std::string& ends,
         const std::string& dtype)
      : flat(golden::read<T>(file, items, dtype)),
        offsets(golden::read<int32_t>(file, ends, "I32")) {}
  size_t size() const { return offsets.size() - 1; }
  std::span<const T> operator[](size_t i) const {
    const auto begin = static_cast<size_t>(offsets[i]);
    return std::span(flat).subspan(begin, static_cast<size_t>(offsets[i + 1]) - begin);
  }
};

std::string_view text_of(std::span<const char> bytes) { return {bytes.data(), bytes.size()}; }

std::vector<int32_t> widened(std::span<const uint16_t> ids) { return {ids.begin(), ids.end()}; }

/// Printable: bytes outside of ASCII as \xNN.
std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    constexpr std::string_view kHex = "0123456789abcdef";
    const bool plain = byte >= 0x20 && byte < 0x7f;
    out += plain ? std::string(1, c) : std::string("\\x") + kHex[byte >> 4] + kHex[byte & 15];
  }
  return out;
}

kv::SafetensorsFile strings() {
  return kv::SafetensorsFile::open(golden::folder("tokenizer.safetensors"));
}

kv::Tokenizer tokenizer() { return kv::Tokenizer::load(golden::model_folder("tiny")); }

}  // namespace

TEST_CASE("golden tokenizer: 10000 strings give the ids of Hugging Face") {
  const auto file = strings();
  const Packed<char> text(file, "text", "text_offsets", "U8");
  const Packed<uint16_t> ids(file, "ids", "id_offsets", "U16");
  const kv::Tokenizer ours = tokenizer();
  REQUIRE(text.size() == 10000);
  REQUIRE(ids.size() == text.size());
  int different = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (ours.encode(text_of(text[i])) == widened(ids[i])) continue;
    if (++different <= 10) MESSAGE("string " << i << ": " << shown(text_of(text[i])));
  }
  CHECK(different == 0);
}

TEST_CASE("golden tokenizer: special-token text is parsed only when asked for") {
  const auto file = strings();
  const Packed<char> text(file, "text", "text_offsets", "U8");
  const Packed<uint16_t> plain(file, "ids", "id_offsets", "U16");
  const Packed<uint16_t> parsed(file, "special_ids", "special_offsets", "U16");
  const auto index = golden::read<int32_t>(file, "special_index", "I32");
  const kv::Tokenizer ours = tokenizer();
  REQUIRE(index.size() >= 100);
  REQUIRE(parsed.size() == index.size());
  for (size_t n = 0; n < index.size(); ++n) {
    const auto i = static_cast<size_t>(index[n]);
    CAPTURE(shown(text_of(text[i])));
    CHECK(ours.encode(text_of(text[i]), true) == widened(parsed[n]));
    CHECK(ours.encode(text_of(text[i]), false) == widened(plain[i]));
    CHECK(widened(parsed[n]) != widened(plain[i]));
  }
}

TEST_CASE("golden tokenizer: ids decode to the text of Hugging Face and broken bytes to U+FFFD") {
  const auto file = strings();
  const Packed<uint16_t> ids(file, "decode_ids", "decode_offsets", "U16");
  const Packed<char> text(file, "decoded", "decoded_offsets", "U8");
  const kv::Tokenizer ours = tokenizer();
  REQUIRE(ids.size() >= 100);
  for (size_t i = 0; i < ids.size(); ++i) {
    CAPTURE(i);
    CHECK(shown(ours.decode(widened(ids[i]))) == shown(text_of(text[i])));
  }
}
