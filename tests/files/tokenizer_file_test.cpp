// tokenizer.json: what of it is built, and everything that can be wrong with it.
#include <doctest/doctest.h>

#include "qwen3/tokenizer.h"
#include "tests/files/small_tokenizer.h"
#include "tests/files/support.h"

using namespace kv;
using namespace kv::testing;
using nlohmann::json;

namespace {

const std::vector<std::pair<std::string, std::string>> kMerges{
    {"a", "b"}, {"ab", "c"}, {" ", "abc"}};

Tokenizer parse(const json& file) { return Tokenizer::parse(file.dump(), "tokenizer.json"); }

std::string error_of(const json& file) {
  return user_error_of([&] { parse(file); });
}

// The message after the value at `pointer` ("/model/type") has been replaced.
std::string error_with(const std::string& pointer, const json& value) {
  json file = small_tokenizer(kMerges);
  file[json::json_pointer(pointer)] = value;
  return error_of(file);
}

struct Wrong {
  std::string pointer;
  json value;
  const char* said;
};
void check_refused(const std::vector<Wrong>& all) {
  for (const Wrong& one : all) {
    CAPTURE(one.pointer);
    CHECK(contains(error_with(one.pointer, one.value), one.said));
  }
}

}  // namespace

TEST_CASE("tokenizer.json: merges as strings and as pairs give the same tokenizer") {
  json file = small_tokenizer(kMerges);
  const Tokenizer strings = parse(file);
  file["model"]["merges"] = json::array(
      {json::array({"a", "b"}), json::array({"ab", "c"}), json::array({spelled(" "), "abc"})});
  const Tokenizer pairs = parse(file);
  for (const std::string text : {"abc", "xabc abc", "ab cab", "", "  abcabc"}) {
    CHECK(strings.encode(text) == pairs.encode(text));
  }
  CHECK(strings.encode("abc abc") == std::vector<int32_t>{257, 258});
}

TEST_CASE("tokenizer.json: a duplicate id is refused") {
  CHECK(contains(error_with("/model/vocab/zz", 97), "\"zz\" has id 97, which \"a\" has too"));
}

TEST_CASE("tokenizer.json: an id that is not an integer in range is refused") {
  for (const json& id :
       {json(-1), json(1.5), json("7"), json(nullptr), json(1'000'000'000'000), json(2'097'152)}) {
    CAPTURE(id.dump());
    CHECK(contains(error_with("/model/vocab/zz", id), "\"zz\" is "));
  }
}

TEST_CASE("tokenizer.json: a token that occurs twice in the text of the file is refused") {
  std::string text = small_tokenizer().dump();
  text.replace(text.find("\"b\":98"), 6, "\"a\":98");
  CHECK(contains(user_error_of([&] { Tokenizer::parse(text, "t"); }), "key \"a\" occurs twice"));
}

TEST_CASE("tokenizer.json: ids with gaps are legal, and the gaps are unknown ids") {
  json file = small_tokenizer(kMerges);
  file["model"]["vocab"]["zz"] = 1000;
  const Tokenizer tokenizer = parse(file);
  CHECK(tokenizer.vocab_size() == 1001);
  CHECK(tokenizer.token_bytes(1000) == "zz");
  CHECK(contains(user_error_of([&] { tokenizer.token_bytes(999); }), "token id 999: unknown"));
}

TEST_CASE("tokenizer.json: a vocab that lacks a byte is refused") {
  json file = small_tokenizer();
  file["model"]["vocab"].erase(spelled("\n"));
  CHECK(contains(error_of(file), "no token for byte 0x0a"));
}

TEST_CASE("tokenizer.json: merges that name unknown tokens are refused") {
  check_refused({{"/model/merges/0", "q zz", "merge 0 (\"q\" + \"zz\") needs token \"zz\""},
                 {"/model/merges/0", "zz q", "needs token \"zz\""},
                 {"/model/merges/0", "q w", "needs token \"qw\""}});
}

TEST_CASE("tokenizer.json: merges of the wrong form are refused") {
  for (const json& merge : {json("ab"), json("a b c"), json(7), json::array({"a"}),
                            json::array({"a", 1}), json::array({"a", "b", "c"}), json(nullptr)}) {
    CAPTURE(merge.dump());
    CHECK(contains(error_with("/model/merges/1", merge), "merge 1 is "));
  }
  CHECK(contains(error_with("/model/merges/1", "a b"),
                 "merge 1 (\"a\" + \"b\") is empty or there twice"));
  CHECK(error_with("/model/merges/1", " b") != "no error");
  CHECK(contains(error_with("/model/merges", "x"), "\"merges\" is \"x\", wanted an array"));
}

TEST_CASE("tokenizer.json: unsupported kinds are refused by name") {
  check_refused(
      {{"/model/type", "WordPiece", "\"type\" is \"WordPiece\", wanted \"BPE\""},
       {"/model/type", "Unigram", "\"type\" is \"Unigram\""},
       {"/model/dropout", 0.1, "\"dropout\" is 0.1"},
       {"/model/continuing_subword_prefix", "##", "\"continuing_subword_prefix\" is \"##\""},
       {"/model/end_of_word_suffix", "</w>", "\"end_of_word_suffix\""},
       {"/model/ignore_merges", true, "\"ignore_merges\" is true"},
       {"/normalizer", {{"type", "NFKC"}}, "\"type\" is \"NFKC\""},
       {"/normalizer",
        {{"type", "Sequence"}, {"normalizers", {{{"type", "Lowercase"}}}}},
        "\"Lowercase\""},
       {"/pre_tokenizer", {{"type", "Metaspace"}}, "\"type\" is \"Metaspace\""},
       {"/pre_tokenizer",
        {{"type", "Sequence"}, {"pretokenizers", json::array()}},
        "at least a ByteLevel"},
       {"/pre_tokenizer/pretokenizers/0/type", "Digits", "\"Digits\""},
       {"/pre_tokenizer/pretokenizers/0/behavior", "Removed", "\"behavior\" is \"Removed\""},
       {"/pre_tokenizer/pretokenizers/0/invert", true, "\"invert\" is true"},
       {"/pre_tokenizer/pretokenizers/0/pattern", {{"String", "x"}}, "key \"Regex\" is missing"},
       {"/pre_tokenizer/pretokenizers/1/add_prefix_space", true, "\"add_prefix_space\" is true"},
       {"/decoder", {{"type", "WordPiece"}}, "\"type\" is \"WordPiece\""},
       {"/decoder", nullptr, "wanted a JSON object"},
       {"/added_tokens/0/lstrip", true, "\"lstrip\" is true"},
       {"/added_tokens/0/rstrip", true, "\"rstrip\" is true"},
       {"/added_tokens/0/single_word", true, "\"single_word\" is true"}});
}

TEST_CASE("tokenizer.json: a pattern that is no regular expression, or never ends, is refused") {
  const std::string pattern = "/pre_tokenizer/pretokenizers/0/pattern/Regex";
  CHECK(contains(error_with(pattern, "(["), "is not a regular expression"));
  CHECK(contains(error_with(pattern, std::string(20'000, 'a')), "20000 bytes, wanted at most"));
  json file = small_tokenizer();
  file[json::json_pointer(pattern)] = "(a+)+b|(a|a)+c";
  const Tokenizer tokenizer = parse(file);
  CHECK(contains(user_error_of([&] { tokenizer.encode(std::string(200, 'a')); }),
                 "wanted a simpler pattern"));
}

TEST_CASE("tokenizer.json: added tokens that contradict the vocab or each other are refused") {
  check_refused({{"/added_tokens/0/id", 97, "\"<|end|>\" has id 97, which \"a\" has too"},
                 {"/added_tokens/0/content", "a", "in the vocab it has 97"},
                 {"/added_tokens/0/content", "<think>", "is empty or there twice"},
                 {"/added_tokens/0/content", "", "is empty or there twice"},
                 {"/added_tokens/1/id", 259, "which \"<|end|>\" has too"},
                 {"/added_tokens/0/id", -1, "\"id\" is -1"}});
}

TEST_CASE("tokenizer.json: an added token that is in the vocab too, with the same id, is legal") {
  json file = small_tokenizer(kMerges);
  file["model"]["vocab"]["<|end|>"] = 259;
  CHECK(parse(file).encode("<|end|>", true) == std::vector<int32_t>{259});
}

TEST_CASE("tokenizer.json: missing parts are refused") {
  for (const char* key : {"pre_tokenizer", "decoder", "model"}) {
    CAPTURE(key);
    json file = small_tokenizer();
    file.erase(key);
    CHECK(contains(error_of(file), fmt::format("key \"{}\" is missing", key)));
  }
  for (const char* key : {"vocab", "merges"}) {
    CAPTURE(key);
    json file = small_tokenizer();
    file["model"].erase(key);
    CHECK(contains(error_of(file), fmt::format("key \"{}\" is missing", key)));
  }
  json file = small_tokenizer();
  file.erase("normalizer");
  file.erase("added_tokens");
  CHECK(error_of(file) == "no error");
}

TEST_CASE("tokenizer.json: a folder without the file is refused") {
  const TempDir dir;
  CHECK(contains(user_error_of([&] { Tokenizer::load(dir.path()); }),
                 "tokenizer.json: no such file"));
}

TEST_CASE("tokenizer.json: a file nested 100000 deep, with 1e400 or lone surrogates is refused") {
  const auto error = [](const std::string& text) {
    return user_error_of([&] { Tokenizer::parse(text, "t"); });
  };
  CHECK(contains(error("{\"model\":" + std::string(100'000, '[')), "nested deeper than 64"));
  CHECK(contains(error(R"({"model":{"vocab":{"a":1e400}}})"), "not valid JSON"));
  CHECK(contains(error(R"({"model":{"vocab":{"\udead":1}}})"), "not valid JSON"));
  CHECK(contains(error("7"), "wanted a JSON object"));
}
