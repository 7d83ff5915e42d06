// Every way a safetensors file can be broken, and what is said then.
#include "qwen3/safetensors.h"

#include <doctest/doctest.h>

#include <cstring>
#include <tuple>
#include <vector>

#include "tests/files/support.h"

using namespace kv;
using namespace kv::testing;

namespace {

constexpr const char* kOne = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

std::string error_of(const std::string& bytes) {
  return user_error_of([&] { parse_safetensors(as_bytes(bytes), "m.safetensors"); });
}

// The message for a header in front of `data_bytes` zeros.
std::string error_of_header(const std::string& header, size_t data_bytes) {
  return error_of(safetensors_bytes(header, std::string(data_bytes, '\0')));
}

}  // namespace

TEST_CASE("safetensors: a good file is read as it stands") {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
      R"("none":{"dtype":"I64","shape":[0,5],"data_offsets":[4,4]}}   )";
  const std::string bytes = safetensors_bytes(header, "abcdefghijklmnop");
  const auto tensors = parse_safetensors(as_bytes(bytes), "m");
  REQUIRE(tensors.size() == 3);
  CHECK(tensors.at("a").shape.empty());
  CHECK(tensors.at("a").bytes == 4);
  CHECK(std::memcmp(tensors.at("a").data, "abcd", 4) == 0);
  CHECK(tensors.at("b").dtype == "BF16");
  CHECK(tensors.at("b").shape == std::vector<int64_t>{2, 3});
  CHECK(std::memcmp(tensors.at("b").data, "efghijklmnop", 12) == 0);
  CHECK(tensors.at("none").bytes == 0);
}

TEST_CASE("safetensors: data that is not aligned for its dtype is legal") {
  const std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                             R"("b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})";
  const std::string bytes = safetensors_bytes(header, "12345");
  CHECK(std::memcmp(parse_safetensors(as_bytes(bytes), "m").at("b").data, "2345", 4) == 0);
}

TEST_CASE("safetensors: a file cut off at any byte is refused") {
  const std::string whole = safetensors_bytes(kOne, "12345678");
  REQUIRE(error_of(whole) == "no error");
  for (size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK(contains(error_of(whole.substr(0, size)), "m.safetensors"));
  }
  CHECK(contains(error_of(""), "m.safetensors: 0 bytes, wanted at least 8"));
  CHECK(contains(error_of(whole.substr(0, whole.size() - 1)),
                 "ends at byte 8 of the data, which has 7"));
}

TEST_CASE("safetensors: a header length that cannot be is refused") {
  CHECK(contains(error_of(std::string(16, '\0')), "header length 0 in bytes 0 to 7"));
  CHECK(contains(error_of(std::string(8, '\xFF') + "{}"), "header length 18446744073709551615"));
  std::string bytes = safetensors_bytes("{}", "");
  bytes[3] = '\x06';  // 100,663,298 > 100,000,000
  CHECK(contains(error_of(bytes), "header length 100663298"));
  bytes = safetensors_bytes(kOne, "");
  bytes[1] = '\x01';  // 256 bytes more than there are
  CHECK(contains(error_of(bytes), "truncated"));
}

TEST_CASE("safetensors: a header that is damaged, or says one thing twice, is refused") {
  struct Wrong {
    const char* what;
    std::string header;
    size_t data_bytes;  // zeros that follow it
    const char* said;
  };
  const std::string tensor = R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  const std::string first = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)";
  const auto then = [&](const std::string& offsets) {
    return first + R"("b":{"dtype":"U8","shape":[4],"data_offsets":)" + offsets + "}}";
  };
  for (const Wrong& wrong : std::vector<Wrong>{
           {"no brace first", " {}", 0, "byte 8 is \" \", wanted \"{\""},
           {"no brace first", "[]", 0, "byte 8 is \"[\""},
           {"no JSON", "{\"a\":", 0, "not valid JSON"},
           {"no JSON", "{} x", 0, "not valid JSON"},
           {"duplicate names", "{" + tensor + "," + tensor + "}", 0, "key \"a\" occurs twice"},
           {"overlap", then("[2,6]"), 6,
            "\"b\": begins at byte 2 of the data, wanted 4 (it overlaps"},
           {"the same bytes", then("[0,4]"), 4, "overlaps"},
           {"a hole", then("[5,9]"), 9,
            "\"b\": begins at byte 5 of the data, wanted 4 (there is a hole"},
           {"trailing bytes", kOne, 9, "1 byte after the last tensor"},
           {"trailing bytes", "{}", 3, "3 bytes after the last tensor"},
           {"a tensor that is a list", R"({"a":[]})", 0, "wanted a JSON object"},
           {"metadata", R"({"__metadata__":{"k":1}})", 0, "__metadata__: \"k\" is 1"}}) {
    CAPTURE(wrong.what);
    CHECK(contains(error_of_header(wrong.header, wrong.data_bytes), wrong.said));
  }
}

TEST_CASE("safetensors: a tensor's fields that are missing, wrong or contradictory are refused") {
  for (const auto& one : std::vector<std::tuple<const char*, size_t, const char*>>{
           {R"("dtype":"F31","shape":[2],"data_offsets":[0,8])", 8,
            "tensor \"a\": unknown dtype \"F31\""},
           {R"("dtype":"U8","shape":[-2],"data_offsets":[0,8])", 8, "an extent of the shape is -2"},
           // 2^32 x 2^32 wraps to 0 in 64 bits; a third extent of 0 would hide it.
           {R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])", 8,
            "larger than 2^63"},
           {R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])", 0,
            "larger than 2^63"},
           {R"("dtype":"U8","shape":[4294967296,4294967296,0],"data_offsets":[0,0])", 0,
            "larger than 2^63"},
           {R"("dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,8])", 8,
            "an extent of the shape is 18446744073709551615"},
           {R"("dtype":"U8","shape":[1],"data_offsets":[1,2])", 2, "there is a hole"},
           {R"("dtype":"F32","shape":[3],"data_offsets":[0,8])", 8,
            "data_offsets [0, 8] hold 8 bytes, wanted 12 for F32 [3]"},
           {R"("dtype":"U8","shape":[0],"data_offsets":[8,0])", 8, "run backwards"},
           {R"("dtype":"U8","shape":[8],"data_offsets":[-8,0])", 8, "first offset is -8"},
           {R"("dtype":"U8","shape":[8],"data_offsets":[0])", 8, "two offsets"},
           {R"("dtype":"U8","shape":[8],"data_offsets":[0,8.5])", 8, "second offset is 8.5"},
           {R"("shape":[8],"data_offsets":[0,8])", 8, "key \"dtype\" is missing"},
           {R"("dtype":"U8","data_offsets":[0,8])", 8, "key \"shape\" is missing"},
           {R"("dtype":"U8","shape":[8])", 8, "key \"data_offsets\" is missing"},
           {R"("dtype":1,"shape":[8],"data_offsets":[0,8])", 8, "\"dtype\" is 1"},
           {R"("dtype":"U8","shape":["8"],"data_offsets":[0,8])", 8, "is \"8\""},
           {R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,8])", 8,
            "\"shape\" is an array of 9 values, wanted at most 8 extents"}}) {
    const auto& [fields, data_bytes, said] = one;
    CAPTURE(std::get<0>(one));
    CHECK(contains(error_of_header("{\"a\":{" + std::string(fields) + "}}", data_bytes), said));
  }
}

TEST_CASE("safetensors: files that cannot be mapped are refused") {
  const TempDir dir;
  CHECK(
      contains(user_error_of([&] { SafetensorsFile::open(dir.path() / "none"); }), "No such file"));
  CHECK(contains(user_error_of([&] { SafetensorsFile::open(dir.path()); }), "not a regular file"));
  const auto empty = dir.write("empty.safetensors", "");
  CHECK(contains(user_error_of([&] { SafetensorsFile::open(empty); }), "0 bytes"));
}
