// Every way a safetensors file can be broken, and what is said then.
#include "common/model/safetensors.h"

#include <doctest/doctest.h>

#include <cstring>

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

// The message for one tensor "a" with these fields.
std::string error_of_tensor(const std::string& fields, size_t data_bytes) {
  return error_of_header("{\"a\":{" + fields + "}}", data_bytes);
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

TEST_CASE("safetensors: an empty file is refused") {
  CHECK(contains(error_of(""), "m.safetensors: 0 bytes, wanted at least 8"));
}

TEST_CASE("safetensors: a file cut off at any byte is refused") {
  const std::string whole = safetensors_bytes(kOne, "12345678");
  REQUIRE(error_of(whole) == "no error");
  for (size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK(contains(error_of(whole.substr(0, size)), "m.safetensors"));
  }
  CHECK(contains(error_of(whole.substr(0, whole.size() - 1)),
                 "ends at byte 8 of the data, which has 7"));
}

TEST_CASE("safetensors: a header of length 0 is refused") {
  CHECK(contains(error_of(std::string(16, '\0')), "header length 0 in bytes 0 to 7"));
}

TEST_CASE("safetensors: a header length beyond that of any model is refused") {
  CHECK(contains(error_of(std::string(8, '\xFF') + "{}"), "header length 18446744073709551615"));
  std::string bytes = safetensors_bytes("{}", "");
  bytes[3] = '\x06';  // 100,663,298 > 100,000,000
  CHECK(contains(error_of(bytes), "header length 100663298"));
}

TEST_CASE("safetensors: a header that ends past the file is refused") {
  std::string bytes = safetensors_bytes(kOne, "");
  bytes[1] = '\x01';  // 256 bytes more than there are
  CHECK(contains(error_of(bytes), "truncated"));
}

TEST_CASE("safetensors: a header that does not start with a brace is refused") {
  CHECK(contains(error_of_header(" {}", 0), "byte 8 is \" \", wanted \"{\""));
  CHECK(contains(error_of_header("[]", 0), "byte 8 is \"[\""));
}

TEST_CASE("safetensors: a header that is not JSON is refused") {
  CHECK(contains(error_of_header("{\"a\":", 0), "not valid JSON"));
  CHECK(contains(error_of_header("{} x", 0), "not valid JSON"));
}

TEST_CASE("safetensors: duplicate names are refused") {
  const std::string tensor = R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  CHECK(contains(error_of_header("{" + tensor + "," + tensor + "}", 0), "key \"a\" occurs twice"));
}

TEST_CASE("safetensors: an unknown dtype is refused") {
  const std::string error = error_of_tensor(R"("dtype":"F31","shape":[2],"data_offsets":[0,8])", 8);
  CHECK(contains(error, "tensor \"a\": unknown dtype \"F31\""));
}

TEST_CASE("safetensors: a negative extent is refused") {
  const std::string error = error_of_tensor(R"("dtype":"U8","shape":[-2],"data_offsets":[0,8])", 8);
  CHECK(contains(error, "an extent of the shape is -2"));
}

TEST_CASE("safetensors: a shape that overflows is refused") {
  CHECK(contains(
      error_of_tensor(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])", 8),
      "larger than 2^63 bytes"));
  CHECK(contains(
      error_of_tensor(R"("dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,8])", 8),
      "an extent of the shape is 18446744073709551615"));
}

TEST_CASE("safetensors: a shape whose product wraps to 0 is refused") {
  // 2^32 * 2^32 = 2^64, which is 0 in 64 bits; and one that a 0 would hide.
  CHECK(contains(
      error_of_tensor(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])", 0),
      "larger than 2^63 bytes"));
  CHECK(contains(
      error_of_tensor(R"("dtype":"U8","shape":[4294967296,4294967296,0],"data_offsets":[0,0])", 0),
      "larger than 2^63 bytes"));
}

TEST_CASE("safetensors: overlapping tensors are refused") {
  const std::string header = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                             R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})";
  CHECK(contains(error_of_header(header, 6),
                 "tensor \"b\": begins at byte 2 of the data, wanted 4 (it overlaps"));
}

TEST_CASE("safetensors: two tensors on the same bytes are refused") {
  const std::string header = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                             R"("b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  CHECK(contains(error_of_header(header, 4), "overlaps"));
}

TEST_CASE("safetensors: a hole between tensors or before them is refused") {
  const std::string header = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                             R"("b":{"dtype":"U8","shape":[4],"data_offsets":[5,9]}})";
  CHECK(contains(error_of_header(header, 9),
                 "tensor \"b\": begins at byte 5 of the data, wanted 4 (there is a hole"));
  CHECK(contains(error_of_tensor(R"("dtype":"U8","shape":[1],"data_offsets":[1,2])", 2),
                 "there is a hole"));
}

TEST_CASE("safetensors: trailing bytes are refused") {
  CHECK(contains(error_of_header(kOne, 9), "1 bytes follow the last tensor"));
  CHECK(contains(error_of_header("{}", 3), "3 bytes follow the last tensor"));
}

TEST_CASE("safetensors: a shape that does not match its offsets is refused") {
  CHECK(contains(error_of_tensor(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])", 8),
                 "data_offsets [0, 8] hold 8 bytes, wanted 12 for F32 [3]"));
}

TEST_CASE("safetensors: offsets that run backwards or are not numbers are refused") {
  CHECK(contains(error_of_tensor(R"("dtype":"U8","shape":[0],"data_offsets":[8,0])", 8),
                 "run backwards"));
  CHECK(contains(error_of_tensor(R"("dtype":"U8","shape":[8],"data_offsets":[-8,0])", 8),
                 "first offset is -8"));
  CHECK(contains(error_of_tensor(R"("dtype":"U8","shape":[8],"data_offsets":[0])", 8),
                 "two offsets"));
  CHECK(contains(error_of_tensor(R"("dtype":"U8","shape":[8],"data_offsets":[0,8.5])", 8),
                 "second offset is 8.5"));
}

TEST_CASE("safetensors: missing or wrong fields of a tensor are refused") {
  CHECK(contains(error_of_tensor(R"("shape":[8],"data_offsets":[0,8])", 8),
                 "key \"dtype\" is missing"));
  CHECK(contains(error_of_tensor(R"("dtype":"U8","data_offsets":[0,8])", 8),
                 "key \"shape\" is missing"));
  CHECK(contains(error_of_tensor(R"("dtype":"U8","shape":[8])", 8),
                 "key \"data_offsets\" is missing"));
  CHECK(contains(error_of_tensor(R"("dtype":1,"shape":[8],"data_offsets":[0,8])", 8),
                 "\"dtype\" is 1"));
  CHECK(contains(error_of_tensor(R"("dtype":"U8","shape":["8"],"data_offsets":[0,8])", 8),
                 "is \"8\""));
  CHECK(contains(error_of_header(R"({"a":[]})", 0), "wanted a JSON object"));
  CHECK(contains(error_of_header(R"({"__metadata__":{"k":1}})", 0), "__metadata__: \"k\" is 1"));
}

TEST_CASE("safetensors: files that cannot be mapped are refused") {
  const TempDir dir;
  CHECK(
      contains(user_error_of([&] { SafetensorsFile::open(dir.path() / "none"); }), "No such file"));
  CHECK(contains(user_error_of([&] { SafetensorsFile::open(dir.path()); }), "not a regular file"));
  const auto empty = dir.write("empty.safetensors", "");
  CHECK(contains(user_error_of([&] { SafetensorsFile::open(empty); }), "0 bytes"));
}

TEST_CASE("safetensors: a header nested 100000 deep or with impossible numbers is refused") {
  CHECK(
      contains(error_of_header("{\"a\":" + std::string(100'000, '['), 0), "nested deeper than 64"));
  CHECK(contains(error_of_tensor(R"("dtype":"U8","shape":[1e400],"data_offsets":[0,8])", 8),
                 "not valid JSON"));
  CHECK(contains(error_of_header(R"({"\ud800":{}})", 0), "not valid JSON"));
}
