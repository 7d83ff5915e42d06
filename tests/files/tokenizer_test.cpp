// Encoding and decoding, also of unusual prompts.
#include "qwen3/tokenizer.h"

#include <doctest/doctest.h>

#include "common/utf8.h"
#include "qwen3/tokenizer_split.h"
#include "tests/files/any_list.h"
#include "tests/files/small_tokenizer.h"
#include "tests/files/support.h"

using namespace kv;
using namespace kv::testing;
using nlohmann::json;
using Ids = std::vector<int32_t>;
using Merges = std::vector<std::pair<std::string, std::string>>;

namespace {

Tokenizer parse(const json& file) { return Tokenizer::parse(file.dump(), "tokenizer.json"); }
Tokenizer make(const Merges& merges = {}) { return parse(small_tokenizer(merges)); }

// a, aa, aaaa, ... and a few words.
const Merges kMerges{{"a", "a"},   {"aa", "aa"},     {"aaaa", "aaaa"}, {"h", "e"},      {"l", "l"},
                     {"he", "ll"}, {"hell", "o"},    {" ", "hello"},   {"\n", "\n"},    {" ", " "},
                     {"1", "2"},   {"\xC3", "\xA9"}, {"\xF0", "\x9F"}, {"\x98", "\x80"}};

Ids bytes_of(std::string_view text) {
  Ids ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

std::vector<std::string> words_of(const std::string& pattern, const std::string& text) {
  std::vector<std::string_view> pieces;
  RegexSplitter(pattern, "test").split(text, pieces);
  return {pieces.begin(), pieces.end()};
}

// Any code point, ASCII more often, marks that combine, and of each number of bytes.
uint32_t any_point(kvtest::Random& random) {
  static const std::vector<std::pair<uint32_t, uint32_t>> kRanges{
      {0x00, 0x80},    {0x20, 0x7F},      {0x80, 0x800},      {0x300, 0x370},
      {0x800, 0xD800}, {0xE000, 0x10000}, {0x1F300, 0x1F700}, {0x10000, 0x110000}};
  static const std::string kOften = "ahelo \n's1";  // what merges
  const auto kind = static_cast<size_t>(random.below(kRanges.size() + 1));
  if (kind == kRanges.size()) {
    return static_cast<uint32_t>(kOften[static_cast<size_t>(random.below(kOften.size()))]);
  }
  const auto [begin, end] = kRanges[kind];
  return begin + static_cast<uint32_t>(random.below(end - begin));
}

// Any valid UTF-8, of which `holds` must hold: empty, or a text of which it does not.
template <class Holds>
std::string wrong_text(const Holds& holds) {
  return kvtest::wrong_list(any_point, [&](const std::vector<uint32_t>& points) {
    std::string text;
    for (const uint32_t c : points) append_utf8(text, c);
    return holds(text);
  });
}

// The textbook's loop: merge the pair of lowest rank, the leftmost first, until none is left.
std::vector<std::string> slow_bpe(const std::string& word, const Merges& merges) {
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  while (true) {
    size_t best_rank = merges.size();
    size_t best = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      for (size_t rank = 0; rank < best_rank; ++rank) {
        if (merges[rank] == std::pair{parts[i], parts[i + 1]}) {
          best_rank = rank;
          best = i;
        }
      }
    }
    if (best_rank == merges.size()) return parts;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

}  // namespace

TEST_CASE("tokenizer: pairs merge by rank, leftmost first") {
  const Tokenizer t = make(kMerges);
  CHECK(t.encode("hello") == Ids{262});
  CHECK(t.encode("hello hello") == Ids{262, 263});
  CHECK(t.encode("hell") == Ids{261});
  CHECK(t.encode("aaa") == Ids{256, 'a'});
  CHECK(t.encode("aaaaaaa") == Ids{257, 256, 'a'});
  CHECK(t.encode("12") == Ids{'1', '2'});  // the pattern keeps digits apart
  CHECK(t.encode("\n\n\n") == Ids{264, '\n'});
}

TEST_CASE("tokenizer: the heap gives what the textbook's loop gives") {
  const auto same = [](const std::vector<uint64_t>& numbers) {  // each a merge or a letter
    Merges merges;
    std::vector<std::string> known{"a", "b", "c"};
    std::string word;
    for (const uint64_t number : numbers) {
      kvtest::Random random(number);
      const auto any_known = [&] { return known[static_cast<size_t>(random.below(known.size()))]; };
      if (merges.size() == 12 || random.below(3) > 0) {
        word += static_cast<char>('a' + random.below(3));
        continue;
      }
      const std::string first = any_known(), second = any_known();
      if (std::find(merges.begin(), merges.end(), std::pair{first, second}) != merges.end())
        continue;
      merges.emplace_back(first, second);
      if (std::find(known.begin(), known.end(), first + second) == known.end()) {
        known.push_back(first + second);
      }
    }
    const Tokenizer t = make(merges);
    std::vector<std::string> parts;
    for (const int32_t id : t.encode(word)) parts.emplace_back(t.token_bytes(id));
    return parts == slow_bpe(word, merges);
  };
  CHECK(kvtest::wrong_list(kvtest::any_number, same) == "");
}

TEST_CASE("tokenizer: Qwen's pattern splits as Qwen's tokenizer does") {
  const auto words = [](const std::string& text) { return words_of(kQwenPattern, text); };
  using Words = std::vector<std::string>;
  CHECK(words("Hello world") == Words{"Hello", " world"});
  CHECK(words("I'm HE'LL don't") == Words{"I", "'m", " HE", "'LL", " don", "'t"});
  CHECK(words("a  b") == Words{"a", " ", " b"});
  CHECK(words("a 12b") == Words{"a", " ", "1", "2", "b"});
  CHECK(words("x = {y};\n\n  z") == Words{"x", " =", " {", "y", "};\n\n", " ", " z"});
  CHECK(words("end  \n\n ") == Words{"end", "  \n\n", " "});
  CHECK(words("\u4f60\u597d\uff0c\u4e16\u754c") == Words{"\u4f60\u597d", "\uff0c\u4e16\u754c"});
  CHECK(words("\u0661\u0662") == Words{"\u0661", "\u0662"});  // Arabic digits
  CHECK(words("\u00a0a\u3000b") == Words{"\u00a0a", "\u3000b"});
  // U+180E has not been white space since Unicode 6.3.
  CHECK(words("!\u180e!") == Words{"!\u180e!"});
  CHECK(words("").empty());
}

TEST_CASE("tokenizer: GPT-2's ByteLevel splits with its own pattern") {
  json file = small_tokenizer(kMerges);
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  const Tokenizer t = parse(file);
  CHECK(t.encode("hello 12") == Ids{262, ' ', 266});   // digits stay together
  CHECK(t.encode("e\u0301") == Ids{'e', 0xCC, 0x81});  // no NFC
  file["pre_tokenizer"].erase("use_regex");
  CHECK(parse(file).encode("hello 12") == Ids{262, ' ', 266});
  file["pre_tokenizer"]["use_regex"] = false;  // one word
  CHECK(parse(file).encode("a\n\na") == Ids{'a', 264, 'a'});
}

TEST_CASE("tokenizer: a pattern that matches nothing, or the empty text, loses nothing") {
  using Words = std::vector<std::string>;
  CHECK(words_of("x", "abc") == Words{"abc"});
  CHECK(words_of("b", "abc") == Words{"a", "b", "c"});
  CHECK(words_of("", "abc") == Words{"a", "b", "c"});
  CHECK(words_of("b*", "abbc\u00e9") == Words{"a", "bb", "c", "\u00e9"});
  CHECK(words_of("(?=b)", "abc") == Words{"a", "bc"});
  // As Oniguruma reads it: lines have ends, words have marks, \h is a digit of sixteen.
  CHECK(words_of("^a|b$", "ba\nab\nb") == Words{"ba\n", "a", "b", "\n", "b"});
  CHECK(words_of(R"(\w+)", "e\u0301\u203f_\u00bd!") == Words{"e\u0301\u203f_", "\u00bd!"});
  CHECK(words_of(R"([\h]+|\H)", "xa0g") == Words{"x", "a0", "g"});
}

TEST_CASE("tokenizer: text is normalised to NFC") {
  const Tokenizer t = make(kMerges);
  CHECK(t.encode("e\u0301") == t.encode("\u00e9"));
  CHECK(t.encode("\u00e9") == Ids{267});
  CHECK(to_nfc("\u1112\u1161\u11ab") == "\ud55c");    // Hangul
  CHECK(to_nfc("q\u0307\u0323") == "q\u0323\u0307");  // marks in canonical order
  CHECK(to_nfc("\u212b") == "\u00c5");                // Angstrom
  CHECK(to_nfc("\u0958") == "\u0915\u093c");          // composition exclusion
  CHECK(to_nfc("a\u0315\u0300\u05ae\u0300b") ==
        "\u00e0\u05ae\u0300\u0315b");  // from Unicode's test
}

TEST_CASE("tokenizer: NFC is idempotent and keeps text that has it") {
  CHECK(wrong_text([](const std::string& text) {
          const std::string once = to_nfc(text);
          return is_valid_utf8(once) && to_nfc(once) == once;
        }) == "");
}

TEST_CASE("tokenizer: decode gives back what encode took") {
  const Tokenizer t = make(kMerges);
  CHECK(wrong_text([&](const std::string& text) {
          return t.decode(t.encode(text)) == to_nfc(text) &&
                 t.decode(t.encode(text, true)) == to_nfc(text);
        }) == "");
}

TEST_CASE("tokenizer: unknown ids are refused") {
  const Tokenizer t = make();
  CHECK(t.vocab_size() == 258);
  for (const int32_t id : {-1, 258, INT32_MAX, INT32_MIN}) {
    CAPTURE(id);
    const Ids ids{id};
    CHECK(contains(user_error_of([&] { t.decode(ids); }), fmt::format("token id {}: unknown", id)));
  }
}

TEST_CASE("tokenizer: an empty prompt has no tokens") {
  const Tokenizer t = make(kMerges);
  CHECK(t.encode("").empty());
  CHECK(t.encode("", true).empty());
  CHECK(t.decode({}).empty());
}

TEST_CASE("tokenizer: invalid UTF-8 becomes U+FFFD") {
  const Tokenizer t = make(kMerges);
  CHECK(t.encode("a\xFF\xE2\x82") == t.encode("a\uFFFD\uFFFD"));
  CHECK(t.decode(t.encode("\xED\xA0\x80")) == "\uFFFD\uFFFD\uFFFD");
  const auto any_byte = [](kvtest::Random& random) { return random.below(256); };
  CHECK(kvtest::wrong_list(any_byte, [&](const std::vector<int>& numbers) {
          const std::string bytes(numbers.begin(), numbers.end());
          return t.decode(t.encode(bytes)) == to_nfc(replace_invalid_utf8(bytes));
        }) == "");
}

TEST_CASE("tokenizer: the text of special tokens stays text unless it is asked for") {
  const Tokenizer t = make();
  CHECK(t.encode("<|end|>") == bytes_of("<|end|>"));
  CHECK(t.encode("a<think>b<|end|") == Ids{'a', 257, 'b', '<', '|', 'e', 'n', 'd', '|'});
  CHECK(t.encode("a<|end|>b<think>", true) == Ids{'a', 256, 'b', 257});
  CHECK(t.encode("<|end|><|end|>", true) == Ids{256, 256});
  CHECK(t.encode("<|end|", true) == bytes_of("<|end|"));
  CHECK(t.encode("<<|end|>", true) == Ids{'<', 256});
  CHECK(t.is_special(256));
  CHECK(!t.is_special(257));
  CHECK(!t.is_special('a'));
  CHECK(t.id_of_special("<|end|>") == 256);
  CHECK(t.id_of_special("<think>") == 257);
  CHECK(!t.id_of_special("a").has_value());
  const Ids ids{'a', 256, 'b', 257};
  CHECK(t.decode(ids) == "a<|end|>b<think>");
  CHECK(t.decode(ids, true) == "ab<think>");
}

TEST_CASE("tokenizer: special tokens that begin in a plain part of a text are text") {
  const Tokenizer t = make();
  const std::string text = "<|end|><|end|><think>";
  const std::vector<TextPart> none, first{{0, 7}}, second{{7, 14}}, all{{0, 7}, {7, 21}};
  const auto with = [](Ids before, const Ids& after) {
    before.insert(before.end(), after.begin(), after.end());
    return before;
  };
  CHECK(t.encode(text, none) == Ids{256, 256, 257});
  CHECK(t.encode(text, first) == with(bytes_of("<|end|>"), {256, 257}));
  CHECK(t.encode(text, second) == with(with({256}, bytes_of("<|end|>")), {257}));
  CHECK(t.encode(text, all) == with(bytes_of("<|end|><|end|>"), {257}));
  CHECK(t.encode(text, std::vector<TextPart>{{3, 3}, {8, 14}}) == Ids{256, 256, 257});
}

TEST_CASE(
    "tokenizer: the longest of several special tokens wins, before normalisation or after it") {
  json file = small_tokenizer();
  json token = file["added_tokens"][0];
  token["id"] = 300;
  token["content"] = "<|end|>>";
  file["added_tokens"].push_back(token);
  token["id"] = 301;
  token["content"] = "e\u0301!";  // matched after NFC has made it U+00E9
  token["normalized"] = true;
  file["added_tokens"].push_back(token);
  const Tokenizer t = parse(file);
  CHECK(t.encode("<|end|>>>", true) == Ids{300, '>'});
  CHECK(t.encode("\u00e9!", true) == Ids{301});
  CHECK(t.encode("e\u0301!", true) == Ids{301});
}

TEST_CASE("tokenizer: a megabyte of one kind of character is encoded and decoded" *
          doctest::test_suite("sweep")) {
  const Tokenizer t = make(kMerges);
  constexpr size_t kBytes = 1 << 20;
  for (const std::string unit :
       {"a", "b", " ", "\n", "1", "!", "\t", "\r\n", "ab", "a ", " \n", "'", "\u00e9", "\u4f60",
        "\u3000", "\U0001F600", "\xFF", "<", "<|end|>"}) {
    CAPTURE(unit);
    std::string text;
    while (text.size() < kBytes) text += unit;
    const Ids ids = t.encode(text);
    CHECK(t.decode(ids) == replace_invalid_utf8(text));
    CHECK(t.decode(t.encode(text, true)) == replace_invalid_utf8(text));
  }
}

TEST_CASE("tokenizer: a megabyte of spaces before a letter is encoded and decoded") {
  const Tokenizer t = make();
  const std::string text = std::string(1 << 20, ' ') + "x";
  CHECK(t.decode(t.encode(text)) == text);
}

TEST_CASE("tokenizer: a megabyte of combining marks in the worst order is normalised") {
  std::string text = "a";
  while (text.size() < 1 << 20) text += "\u0301\u0316";  // classes 230 and 220
  const std::string nfc = to_nfc(text);
  CHECK(nfc.size() == text.size() - 1);  // a + U+0301 became U+00E1
  CHECK(nfc.substr(0, 4) == "\u00e1\u0316");
}

TEST_CASE("tokenizer: an emoji split across tokens streams as one character") {
  const Tokenizer t = make();  // every byte is a token
  StreamingDecoder stream(t);
  CHECK(stream.push(0xF0).empty());
  CHECK(stream.push(0x9F).empty());
  CHECK(stream.push(0x98).empty());
  CHECK(stream.push(0x80) == "\U0001F600");
  CHECK(stream.push('a') == "a");
  CHECK(stream.push(0xE2).empty());
  CHECK(stream.push(256).empty());  // a special token prints nothing, and cuts nothing
  CHECK(stream.push(0x82).empty());
  CHECK(stream.push(0xAC) == "\u20ac");
  CHECK(stream.push(0xF0).empty());
  CHECK(stream.push('b') == "\uFFFDb");  // it cannot be finished any more
  CHECK(stream.push(0xC3).empty());
  CHECK(stream.finish() == "\uFFFD");
  CHECK(stream.finish().empty());
}

TEST_CASE("tokenizer: an id that only the model knows streams as one replacement character") {
  const Tokenizer t = make(kMerges);
  const int32_t padding = t.vocab_size() + 5;
  REQUIRE_FALSE(t.has(padding));
  REQUIRE_FALSE(t.has(-1));
  REQUIRE(t.has(0));
  StreamingDecoder stream(t);
  CHECK(stream.push('a') == "a");
  CHECK(stream.push(padding) == "\uFFFD");
  CHECK(stream.push(0xE2).empty());
  CHECK(stream.push(padding) == "\uFFFD\uFFFD");  // the character begun before is cut off, too
  CHECK(stream.push('b') == "b");
  CHECK_THROWS_AS(t.decode(Ids{padding}), UserError);  // who names ids is told
  CHECK(t.shown(Ids{'a', padding, '\n', 0xE2}) == "a\uFFFD\\n\uFFFD");
}

TEST_CASE("tokenizer: streaming gives the text of decode, always in whole characters") {
  const Tokenizer t = make(kMerges);
  const auto any_id = [&](kvtest::Random& random) {
    return static_cast<int32_t>(random.below(static_cast<size_t>(t.vocab_size())));
  };
  CHECK(kvtest::wrong_list(any_id, [&](const Ids& ids) {
          StreamingDecoder stream(t);
          std::string text;
          bool whole = true;
          for (const int32_t id : ids) {
            const std::string piece = stream.push(id);
            whole = whole && is_valid_utf8(piece);
            text += piece;
          }
          text += stream.finish();
          return whole && text == t.decode(ids, true);
        }) == "");
}
