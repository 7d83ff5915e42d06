// The text of an answer: every way in which a stop string can lie over tokens, and half characters.
#include "instruments/serve/text.h"

#include <doctest/doctest.h>

#include <map>

#include "instruments/serve/test/support.h"

using kv::Tokenizer;
using serve::TextOptions;
using serve::TextStream;
using Ids = std::vector<int32_t>;

namespace {

/// A tokenizer with a token for each part of `text`, and their ids.
struct AllParts {
  explicit AllParts(const std::string& text) {
    nlohmann::json file = kv::testing::small_tokenizer();
    nlohmann::json& vocab = file["model"]["vocab"];
    int32_t next = 1000;
    for (size_t i = 0; i < text.size(); ++i) {
      for (size_t n = 1; i + n <= text.size(); ++n) {
        const std::string part = text.substr(i, n);
        if (n > 1 && !ids.contains(part)) vocab[kv::testing::spelled(part)] = next++;
        ids[part] = vocab[kv::testing::spelled(part)];
      }
    }
    tokenizer.emplace(Tokenizer::parse(file.dump(), "parts"));
  }
  std::map<std::string, int32_t> ids;
  std::optional<Tokenizer> tokenizer;
};

/// The pieces joined, with "|" and the stop string, if there is one. Checks that nothing is
/// released that a stop could have begun with, and that nothing certain is held.
std::string shown(const AllParts& parts, const std::vector<std::string>& pieces,
                  const TextOptions& options) {
  TextStream stream(*parts.tokenizer, options);
  std::string all, pushed;
  for (const std::string& piece : pieces) {
    all += stream.push(parts.ids.at(piece));
    pushed += piece;
    if (stream.stop()) return all + "|" + *stream.stop();
    const std::string held = pushed.substr(all.size());
    REQUIRE(pushed.starts_with(all));
    bool begins = held.empty();
    for (const std::string& stop : options.stops) begins |= stop.starts_with(held);
    REQUIRE(begins);
  }
  return all + stream.finish();
}

/// All ways to cut a text into parts.
void for_each_split(const std::string& text, const auto& call) {
  for (size_t cuts = 0; cuts < size_t{1} << (text.size() - 1); ++cuts) {
    std::vector<std::string> pieces(1);
    for (size_t i = 0; i < text.size(); ++i) {
      pieces.back() += text[i];
      if (i + 1 < text.size() && (cuts >> i & 1) != 0) pieces.emplace_back();
    }
    call(pieces);
  }
}

Tokenizer small() { return Tokenizer::parse(serve_test::chat_tokenizer().dump(), "small"); }

}  // namespace

TEST_CASE("text: a stop string cuts at the same place, however it lies over tokens") {
  struct Case {
    std::string text;
    std::vector<std::string> stops;
    std::string wanted;
  };
  for (const Case& c : std::vector<Case>{
           {"abcabdxy", {"abd"}, "abc|abd"},      // one begins inside another beginning
           {"aaabaaaac", {"aaaa"}, "aaab|aaaa"},  // a stop that overlaps itself
           {"xabcdy", {"abcd", "bc"}, "xa|bc"},   // inside another: complete first
           {"xabcy", {"abc", "bc"}, "x|abc"},     // they end together: listed first
           {"xabcy", {"bc", "abc"}, "xa|bc"},
           {"abcabc", {"abcd"}, "abcabc"},  // never complete: all goes out
           {"abxyab", {"ab"}, "|ab"},       // at the start
           {"xyzab", {"ab"}, "xyz|ab"},     // at the end
           {"x\xC3\xA9y\xC3\xA9z", {"\xC3\xA9z"}, "x\xC3\xA9y|\xC3\xA9z"},
       }) {
    CAPTURE(c.text);
    const AllParts parts(c.text);
    for_each_split(c.text, [&](const std::vector<std::string>& pieces) {
      if (c.text.find('\xC3') != c.text.npos) {  // half characters are not valid prefixes
        TextStream stream(*parts.tokenizer, {.stops = c.stops});
        std::string all;
        for (const std::string& piece : pieces) {
          if (!stream.stop()) all += stream.push(parts.ids.at(piece));
        }
        REQUIRE(all + "|" + stream.stop().value_or("") == c.wanted);
        return;
      }
      REQUIRE(shown(parts, pieces, {.stops = c.stops}) == c.wanted);
      const size_t bar = c.wanted.find('|');
      if (bar == c.wanted.npos) return;
      const std::string stop = c.wanted.substr(bar + 1);
      REQUIRE(shown(parts, pieces, {.stops = c.stops, .include_stop = true}) ==
              c.wanted.substr(0, bar) + stop + "|" + stop);
    });
  }
}

TEST_CASE("text: a stop string must end after the text of min_tokens tokens") {
  const AllParts parts("ababx");
  CHECK(shown(parts, {"ab", "ab", "x"}, {.stops = {"ab"}, .min_tokens = 1}) == "ab|ab");
  CHECK(shown(parts, {"ab", "ab", "x"}, {.stops = {"ab"}, .min_tokens = 2}) == "ababx");
  // Begun before, complete after it.
  CHECK(shown(parts, {"ab", "a", "b", "x"}, {.stops = {"ab"}, .min_tokens = 2}) == "ab|ab");
}

TEST_CASE("text: half a character waits for the other half") {
  const Tokenizer tokenizer = small();
  TextStream stream(tokenizer, {});
  CHECK(stream.push(0xF0) == "");
  CHECK(stream.push(0x9F) == "");
  CHECK(stream.push(0x98) == "");
  CHECK(stream.push(0x80) == "\xF0\x9F\x98\x80");
  CHECK(stream.push(0xC3) == "");
  CHECK(stream.push('a') == "\uFFFDa");  // it never came
  CHECK(stream.push(0xC3) == "");
  CHECK(stream.finish() == "\uFFFD");
}

TEST_CASE("text: special tokens and unknown ids, as a program's stream of text shows them") {
  const Tokenizer tokenizer = small();
  const int32_t special = *tokenizer.id_of_special("<|im_end|>");
  const Ids ids = {'a', 0xC3, special, 0xA9, 0xC3, 1 << 20, 'b'};
  kv::StreamingDecoder decoder(tokenizer);
  TextStream stream(tokenizer, {});
  for (const int32_t id : ids) CHECK(stream.push(id) == decoder.push(id));
  TextStream all(tokenizer, {.skip_special = false});
  CHECK(all.push(special) == "<|im_end|>");
  CHECK(serve::num_characters("a\xC3\xA9\xF0\x9F\x98\x80") == 3);
}
