#include <doctest/doctest.h>

#include <cstring>

#include "qwen3/safetensors.h"
#include "tests/files/support.h"

using namespace kv;
using namespace kv::testing;

namespace {

// A copy's views would point into the original.
static_assert(!std::is_copy_constructible_v<SafetensorsFile>);
static_assert(!std::is_copy_constructible_v<Weights>);
static_assert(std::is_nothrow_move_constructible_v<Weights>);

// Two shards with "a" and "b" of one byte each, and an index that may be wrong.
struct Folder {
  TempDir dir;
  Folder() {
    write_safetensors(dir.path() / "s1.safetensors", {{"a", "U8", {1}, "A", 1}});
    write_safetensors(dir.path() / "s2.safetensors", {{"b", "U8", {1}, "B", 1}});
  }
  void index(const std::string& text) { dir.write("model.safetensors.index.json", text); }
  void map(const std::string& a, const std::string& b) {
    index(nlohmann::json{{"weight_map", {{"a", a}, {"b", b}}}}.dump());
  }
  std::string error() {
    return user_error_of([&] { Weights::open(dir.path()); });
  }
};

}  // namespace

TEST_CASE("weights: one file is read, and wins over an index") {
  Folder f;
  f.map("s1.safetensors", "none.safetensors");
  write_safetensors(f.dir.path() / "model.safetensors", {{"w", "U8", {2}, "XY", 2}});
  const Weights weights = Weights::open(f.dir.path());
  CHECK(weights.names() == std::vector<std::string>{"w"});
  CHECK(weights.total_bytes() == 2);
  CHECK(weights.find("a") == nullptr);
  CHECK(contains(weights.where("w"), "model.safetensors"));
  CHECK(weights.where("a") == f.dir.path().string());
}

TEST_CASE("weights: two shards are read, and views survive a move") {
  Folder f;
  f.map("s1.safetensors", "s2.safetensors");
  Weights weights = Weights::open(f.dir.path());
  const Weights moved = std::move(weights);
  REQUIRE(moved.find("a") != nullptr);
  REQUIRE(moved.find("b") != nullptr);
  CHECK(std::memcmp(moved.find("a")->data, "A", 1) == 0);
  CHECK(std::memcmp(moved.find("b")->data, "B", 1) == 0);
  CHECK(contains(moved.where("b"), "s2.safetensors"));
  CHECK(moved.total_bytes() == 2);
}

TEST_CASE("weights: a tensor that the index does not name is not there") {
  Folder f;
  f.index(R"({"metadata": {"total_size": 1}, "weight_map": {"a": "s1.safetensors"}})");
  const Weights weights = Weights::open(f.dir.path());
  CHECK(weights.names() == std::vector<std::string>{"a"});
  CHECK(weights.find("b") == nullptr);
}

TEST_CASE("weights: no folder and a folder without weights are refused") {
  Folder f;
  CHECK(contains(f.error(), "neither model.safetensors nor model.safetensors.index.json"));
  CHECK(contains(user_error_of([&] { Weights::open(f.dir.path() / "none"); }), "no such folder"));
}

TEST_CASE("weights: a shard that is missing, broken or lacks its tensor is refused") {
  Folder f;
  f.map("s1.safetensors", "s3.safetensors");
  CHECK(contains(f.error(), "shard \"s3.safetensors\" is not in the folder"));
  f.map("s2.safetensors", "s2.safetensors");
  CHECK(contains(f.error(), "tensor \"a\" should be in shard \"s2.safetensors\""));
  f.dir.write("s2.safetensors", "12345");
  CHECK(contains(f.error(), "s2.safetensors: 5 bytes, wanted at least 8"));
}

TEST_CASE("weights: a tensor in two shards is refused, whether or not the index names both") {
  Folder f;
  f.map("s1.safetensors", "s2.safetensors");
  write_safetensors(f.dir.path() / "s2.safetensors",
                    {{"a", "U8", {1}, "X", 1}, {"b", "U8", {1}, "B", 1}});
  CHECK(contains(f.error(),
                 "tensor \"a\" is in shard \"s1.safetensors\" and in shard \"s2.safetensors\""));
}

TEST_CASE("weights: an index that reaches outside its folder is refused") {
  for (const std::string path : {"../s1.safetensors", "/etc/passwd", "..", ".", "",
                                 "x/s1.safetensors", "x\\s1.safetensors"}) {
    CAPTURE(path);
    Folder f;
    f.map(path, "s2.safetensors");
    CHECK(contains(f.error(), "wanted the plain name of a file in the same folder"));
  }
}

TEST_CASE("weights: an index of the wrong form is refused") {
  Folder f;
  for (const auto& one : std::vector<std::pair<std::string, const char*>>{
           {"", "the file is empty"},
           {"[]", "wanted a JSON object"},
           {"{}", "key \"weight_map\" is missing"},
           {R"({"weight_map": {}})", "names no tensor"},
           {R"({"weight_map": {"a": 1}})", "\"a\" is 1, wanted a string"},
           {R"({"weight_map": {"a": "s1.safetensors", "a": "s1.safetensors"}})", "occurs twice"}}) {
    CAPTURE(one.second);
    f.index(one.first);
    CHECK(contains(f.error(), one.second));
  }
}
