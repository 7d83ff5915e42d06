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

TEST_CASE("tokenizer.json: an id that another token has, or that is none, is refused") {
  CHECK(contains(error_with("/model/vocab/zz", 97), "\"zz\" has id 97, which \"a\" has too"));
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

TEST_CASE("tokenizer.json: merges of unknown tokens, or of the wrong form, are refused") {
  check_refused({{"/model/merges/0", "q zz", "merge 0 (\"q\" + \"zz\") needs token \"zz\""},
                 {"/model/merges/0", "zz q", "needs token \"zz\""},
                 {"/model/merges/0", "q w", "needs token \"qw\""}});
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
  // Oniguruma intersects and nests classes, repeats {1,3}+, and has (?m) for what is (?s) here.
  for (const char* differs : {R"([\p{L}&&[^\p{Han}]]+)", "[a[bc]]", "[[:alpha:]]", R"(\p{N}{1,3}+)",
                              "a{,2}", "(?m:.)+", "a(?i)b", R"(\bon)", R"([\W_])", R"(\v)"}) {
    CAPTURE(differs);
    CHECK(contains(error_with(pattern, differs), "which PCRE2 reads differently"));
  }
  CHECK(error_with(pattern, R"((?i)[\[&\]]|(?i:'s)|\p{N}{1,3}|[^\S\n]|\p{L}+)") == "no error");
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

TEST_CASE("tokenizer.json: a post-processor's tokens stand around a prompt") {
  const auto special = [](const char* text) {
    return json{{"SpecialToken", {{"id", text}, {"type_id", 0}}}};
  };
  const json sequence = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const json token = {{"id", "<|end|>"}, {"ids", {256}}, {"tokens", {"<|end|>"}}};
  const json pattern = {{"type", "TemplateProcessing"},
                        {"single", {special("<|end|>"), sequence, special("<|end|>")}},
                        {"special_tokens", {{"<|end|>", token}}}};
  using Ids = std::vector<int32_t>;
  json file = small_tokenizer();
  const auto around = [&] { return parse(file).with_special_tokens({'a'}); };
  CHECK(around() == Ids{'a'});
  file["post_processor"] = pattern;
  CHECK(around() == Ids{256, 'a', 256});
  CHECK(parse(file).encode("a", true) == Ids{'a'});
  file["post_processor"] = {{"type", "ByteLevel"}, {"trim_offsets", false}};
  CHECK(around() == Ids{'a'});
  json inner = pattern;
  inner["single"] = {sequence, special("<|end|>")};
  file["post_processor"] = {{"type", "Sequence"}, {"processors", {{{"type", "ByteLevel"}}, inner}}};
  CHECK(around() == Ids{'a', 256});
  file["post_processor"] = pattern;
  const auto refused = [&](const char* at, const json& value, const char* words) {
    json other = file;
    other["post_processor"][json::json_pointer(at)] = value;
    CHECK(contains(error_of(other), words));
  };
  refused("/type", "RobertaProcessing", "\"type\" is \"RobertaProcessing\"");
  refused("/single", {sequence, sequence}, "wanted one \"Sequence\"");
  refused("/single", json::array(), "wanted one \"Sequence\"");
  refused("/special_tokens/<|end|>/ids", {9999}, "wanted ids of the vocab");
  refused("/special_tokens", json::object(), "key \"<|end|>\" is missing");
}

TEST_CASE("tokenizer.json: truncation and padding of a training change no text") {
  json file = small_tokenizer();
  file["truncation"] = {{"direction", "Right"}, {"max_length", 2}};
  file["padding"] = {{"strategy", {{"Fixed", 9}}}, {"pad_id", 256}};
  CHECK(parse(file).encode("abc", true) == std::vector<int32_t>{'a', 'b', 'c'});
}

TEST_CASE("tokenizer_config.json: each key that changes tokens or ends is used or refused") {
  using Ids = std::vector<int32_t>;
  const TempDir dir;
  dir.write("tokenizer.json", small_tokenizer().dump());  // 256 is <|end|>, 257 is <think>
  const auto with = [&](const std::string& text) {
    dir.write("tokenizer_config.json", text);
    return Tokenizer::load(dir.path());
  };
  CHECK(Tokenizer::load(dir.path()).with_eos_token({7}) == Ids{7});
  CHECK(with(R"({"eos_token":"<|end|>"})").with_eos_token({7}) == Ids{7, 256});
  CHECK(with(R"({"eos_token":"<|end|>"})").with_eos_token({256}) == Ids{256});
  CHECK(with(R"({"eos_token":{"content":"<|end|>"}})").with_eos_token({}) == Ids{256});
  CHECK(with(R"({"eos_token":null})").with_eos_token({}).empty());
  CHECK(with(R"({"eos_token":"<|end|>","add_eos_token":true})").with_special_tokens({'a'}) ==
        Ids{'a', 256});
  CHECK(with(R"({"bos_token":"<|end|>","add_bos_token":true})").with_special_tokens({'a'}) ==
        Ids{256, 'a'});
  CHECK(with(R"({"bos_token":"<|end|>","add_bos_token":false})").with_special_tokens({'a'}) ==
        Ids{'a'});
  CHECK(with(R"({"added_tokens_decoder":{"257":{"content":"<think>","special":true}}})")
            .is_special(257));
  CHECK(with(R"({"model_max_length":77})").config().max_length == 77);
  CHECK(with(R"({"model_max_length":1e30})").config().max_length == INT64_MAX);
  // A token that only this file calls added, or special, is one.
  const Tokenizer added = with(R"({"added_tokens_decoder":{"97":{"content":"a","special":true}},
                                   "pad_token":"b"})");
  CHECK(added.is_special('a'));
  CHECK(added.is_special('b'));
  dir.write("special_tokens_map.json", R"({"eos_token":"<think>","bos_token":"<|end|>"})");
  CHECK(with(R"({"eos_token":"<|end|>"})").with_eos_token({}) == Ids{256});
  CHECK(with("{}").with_eos_token({}) == Ids{257});
  CHECK(with("{}").config().special.at("bos_token") == "<|end|>");
  dir.write("added_tokens.json", R"({"<think>":257})");
  CHECK(with("{}").vocab_size() == 258);
  const auto error = [&](const std::string& text) { return user_error_of([&] { with(text); }); };
  for (const std::string key :
       {"add_prefix_space", "do_lower_case", "split_special_tokens", "fix_mistral_regex"}) {
    CHECK(contains(error("{\"" + key + "\":true}"), "\"" + key + "\" is true"));
    CHECK(error("{\"" + key + "\":false}") == "no error");
  }
  CHECK(contains(error(R"({"eos_token":"<none>"})"), "\"eos_token\" is \"<none>\""));
  CHECK(contains(error(R"({"additional_special_tokens":["<|end|>","<none>"]})"),
                 "\"additional_special_tokens\" is \"<none>\""));
  for (const std::string key : {"extra_special_tokens", "model_specific_special_tokens"}) {
    CHECK(with("{\"" + key + R"(":{"image":"c"}})").is_special('c'));
  }
  CHECK(contains(error(R"({"add_eos_token":true,"eos_token":null})"), "wanted a \"eos_token\""));
  CHECK(contains(error(R"({"added_tokens_decoder":{"257":{"content":"<|end|>"}}})"),
                 "\"<|end|>\" has id 257, in tokenizer.json it has 256"));
  CHECK(
      contains(error(R"({"added_tokens_decoder":{"300":{"content":"new"}}})"), "another, or none"));
  CHECK(contains(error(R"({"added_tokens_decoder":{"256":{"content":"<|end|>","lstrip":true}}})"),
                 "\"lstrip\" is true"));
  dir.write("added_tokens.json", R"({"<think>":9})");
  CHECK(contains(error("{}"), "\"<think>\" has id 9"));
}

TEST_CASE("tokenizer.json: missing parts are refused") {
  for (const char* key : {"pre_tokenizer", "decoder", "model", "vocab", "merges"}) {
    CAPTURE(key);
    json file = small_tokenizer();
    if (file.erase(key) == 0) file["model"].erase(key);
    CHECK(contains(error_of(file), fmt::format("key \"{}\" is missing", key)));
  }
  json file = small_tokenizer();
  file.erase("normalizer");
  file.erase("added_tokens");
  CHECK(error_of(file) == "no error");
  CHECK(contains(error_of(7), "wanted a JSON object"));
}

TEST_CASE("tokenizer.json: a folder without the file is refused") {
  const TempDir dir;
  CHECK(contains(user_error_of([&] { Tokenizer::load(dir.path()); }),
                 "tokenizer.json: no such file"));
}
