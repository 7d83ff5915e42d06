// JSON that is legal to write and harmful to read.
#include "common/json.h"

#include <doctest/doctest.h>

#include "tests/files/support.h"

using namespace kv;
using namespace kv::testing;

namespace {
std::string error_of(const std::string& text) {
  return user_error_of([&] { parse_json(text, "f.json"); });
}
}  // namespace

TEST_CASE("json: every kind of value is read") {
  const Json json = parse_json(R"({"a":[1,-2,3.5,true,null,"x\u00e9\ud83d\ude00"],"b":{}})", "f");
  CHECK(json["a"][0] == 1);
  CHECK(json["a"][1] == -2);
  CHECK(json["a"][2] == 3.5);
  CHECK(json["a"][3] == true);
  CHECK(json["a"][4].is_null());
  CHECK(json["a"][5] == "x\u00e9\U0001F600");
  CHECK(json["b"].is_object());
  CHECK(parse_json("7", "f") == 7);
}

TEST_CASE("json: text nested 100000 deep is refused") {
  CHECK(contains(error_of(std::string(100'000, '[')), "f.json: JSON nested deeper than 64"));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  CHECK(contains(error_of(objects), "nested deeper than 64"));
  CHECK(error_of(std::string(64, '[') + std::string(64, ']')) == "no error");
  CHECK(contains(error_of(std::string(65, '[') + std::string(65, ']')), "nested deeper than 64"));
}

TEST_CASE("json: numbers that no double holds are refused") {
  CHECK(contains(error_of("1e400"), "not valid JSON"));
  CHECK(contains(error_of("-1e400"), "not valid JSON"));
  CHECK(contains(error_of("[1" + std::string(400, '0') + "]"), "not valid JSON"));
  CHECK(contains(error_of("NaN"), "not valid JSON"));
}

TEST_CASE("json: lone surrogates and ill-formed UTF-8 are refused") {
  for (const std::string text :
       {R"("\ud800")", R"("\udc00")", R"("\ud800\ud800")", R"("\ud800x")", "\"\xFF\"",
        "\"\xED\xA0\x80\"", "\"\xC0\x80\"", "\"\xF0\x9F\x98\""}) {
    CAPTURE(text);
    CHECK(contains(error_of(text), "not valid JSON"));
  }
}

TEST_CASE("json: a NUL byte does not end the text: it is refused") {
  const std::string nul(1, '\0');
  for (const std::string& text :
       {"{}" + nul, "{}" + nul + "rubbish", nul + "{}", "{" + nul + "}", "{\"a" + nul + "\":1}"}) {
    CHECK(contains(error_of(text), "is NUL"));
  }
  CHECK(error_of("{\"a\\u0000\":1}") == "no error");
}

TEST_CASE("json: lists and objects that would take many times the file's size are refused") {
  for (const std::string item : {"[]", "{}"}) {
    std::string text = "[" + item;
    for (int i = 0; i < 100'000; ++i) text += "," + item;
    CHECK(contains(error_of(text + "]"), "lists and objects in"));
  }
  std::string pairs = R"([["a","b"])";  // merges of a tokenizer, as short as they can be
  for (int i = 0; i < 100'000; ++i) pairs += R"(,["a","b"])";
  CHECK(error_of(pairs + "]") == "no error");
}

TEST_CASE("json: a key that occurs twice is refused") {
  CHECK(contains(error_of(R"({"a":1,"b":{"a":1},"a":2})"), "key \"a\" occurs twice"));
  CHECK(error_of(R"({"a":1,"b":{"a":1}})") == "no error");
}

TEST_CASE("json: text that ends early, goes on, or is no JSON is refused") {
  for (const std::string text : {"{", "[1,", "\"abc", "{}}", "1 2", "{\"a\" 1}", "[1,]", "tru",
                                 "'a'", "// c\n1", "\x01", " "}) {
    CAPTURE(text);
    CHECK(contains(error_of(text), "not valid JSON"));
  }
  CHECK(contains(error_of(""), "the file is empty"));
}

TEST_CASE("json: a message says where, what was found and what was wanted") {
  CHECK(error_of("[1, 2,\n  3, tru]") ==
        "f.json: not valid JSON at line 2, column 9: found ']', wanted strict JSON in UTF-8; "
        "correct it");
  CHECK(contains(error_of("[1,"), "JSON at column 4: found the end, wanted strict JSON"));
  CHECK(contains(error_of("[1, 2,]"), "JSON at column 7: found ']', wanted strict JSON"));
  CHECK(contains(error_of("[\"ab\xFF\"]"), "JSON at column 5: found '\\xff', wanted strict"));
  CHECK(contains(error_of("{\"a\" \"b\"}"), "JSON at column 6: found '\"b\"', wanted strict"));
  CHECK(contains(error_of("[1e400]"), "column 2: found '1e400', wanted a number that a double"));
}

TEST_CASE("json: a message stays one short line whatever the file holds") {
  const std::string error = error_of("\"" + std::string(5'000, 'x') + "\n\x1b[31m");
  CHECK(contains(error, "not valid JSON"));
}

TEST_CASE("json: more values than any model's file has are refused") {
  const JsonLimits limits{.max_depth = 8, .max_values = 10};
  CHECK(user_error_of([&] { parse_json("[1,2,3,4,5,6,7,8,9]", "f", limits); }) == "no error");
  CHECK(contains(user_error_of([&] { parse_json("[1,2,3,4,5,6,7,8,9,10]", "f", limits); }),
                 "more than 10 JSON values"));
}

TEST_CASE("json: integers out of range do not wrap") {
  const Json big = parse_json("18446744073709551615", "f");
  CHECK(contains(user_error_of([&] { json_integer(big, "k", -10, 10); }),
                 "k is 18446744073709551615, wanted an integer from -10 to 10"));
  for (const std::string text : {"11", "-11", "1.5", "1e2", "\"1\"", "true", "null", "[1]"}) {
    CAPTURE(text);
    const Json value = parse_json(text, "f");
    CHECK(contains(user_error_of([&] { json_integer(value, "k", -10, 10); }), "wanted an integer"));
  }
}

TEST_CASE("json: files that cannot be read are refused") {
  const TempDir dir;
  CHECK(contains(user_error_of([&] { load_json(dir.path() / "none.json"); }), "no such file"));
  CHECK(contains(user_error_of([&] { load_json(dir.path()); }), "not a regular file"));
  CHECK(contains(user_error_of([&] { load_json(dir.write("a.json", "[1,2,3]"), 3); }),
                 "7 bytes, wanted at most 3"));
}

TEST_CASE("json: a whole number is one however it is written, and keeps all of its digits") {
  const auto read = [](const std::string& text) {
    return integer_in(parse_json(text, "x"), INT64_MIN, INT64_MAX);
  };
  for (const char* two : {"2", "2.0", "2.000", "2e0", "0.2e1", "20e-1"}) {
    CAPTURE(two);
    CHECK(read(two) == 2);
  }
  CHECK(read("-0.0") == 0);
  CHECK(read("1e3") == 1000);
  CHECK(read("-7.0") == -7);
  for (const char* none :
       {"2.5", "1e-3", "2.0000000001", "\"2\"", "true", "1e19", "-1e19", "1e300"}) {
    CAPTURE(none);
    CHECK(!read(none));
  }
  // Beyond 2^53 a double has lost digits that the text has.
  CHECK(read("9007199254740992.0") == 9007199254740992);
  CHECK(read("9007199254740993.0") == 9007199254740993);
  CHECK(read("9007199254740993.5") == std::nullopt);
  CHECK(read("9.223372036854775807e18") == INT64_MAX);
  CHECK(read("-9.223372036854775808E+18") == INT64_MIN);
  CHECK(read("9223372036854775808.0") == std::nullopt);
  CHECK(unsigned_in(parse_json("18446744073709551615.0", "x")) == UINT64_MAX);
  CHECK(unsigned_in(parse_json("11.0", "x")) == 11);
  CHECK(!unsigned_in(parse_json("-1.0", "x")));
  CHECK(!integer_in(parse_json("5.0", "x"), 0, 4));
  CHECK(parse_json("1e300", "x").get<double>() == 1e300);
}
