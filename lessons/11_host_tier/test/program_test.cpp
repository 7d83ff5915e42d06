// The program of lesson 11, and what it prints.

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/shell.h"
#include "tests/support/temp_dir.h"

namespace {

nlohmann::json run(const std::string& options) {
  const auto ran = kvtest::shell("$B/lesson11 --device cpu --json - " + options);
  CAPTURE(ran.err);
  REQUIRE(ran.code == 0);
  return nlohmann::json::parse(ran.out);
}

}  // namespace

TEST_CASE("the second round loads what the device has evicted, at equal bits") {
  const auto json = run("--policy always");
  CHECK(json.at("same_bits") == true);
  const auto& rounds = json.at("rounds");
  REQUIRE(rounds.size() == 3);
  CHECK(rounds[1].at("loaded_tokens") > 100);
  CHECK(rounds[1].at("computed_tokens") < rounds[1].at("computed_tokens_without"));
  CHECK(rounds[1].at("file_tokens") == 0);
}

TEST_CASE("with --policy never nothing rises") {
  const auto json = run("--policy never --rounds 2");
  for (const auto& round : json.at("rounds")) {
    CHECK(round.at("loaded_tokens") == 0);
    CHECK(round.at("computed_tokens") == round.at("computed_tokens_without"));
  }
}

TEST_CASE("the next start finds in the file what this one has left") {
  const kvtest::TempDir folder;
  const std::string options =
      "--policy always --rounds 1 --file '" + (folder.path() / "a file").string() + "'";
  const auto first = run(options), second = run(options);
  CHECK(first.at("rounds")[0].at("file_tokens") == 0);
  CHECK(second.at("rounds")[0].at("file_tokens") > 50);
  CHECK(second.at("rounds")[0].at("digest") == first.at("rounds")[0].at("digest"));
}

TEST_CASE("a file that is no file of blocks, or another model's, is refused and left alone") {
  const kvtest::TempDir folder;
  const std::string file = (folder.path() / "file").string();
  std::ofstream(file) << std::string(10'000, 'x');
  const auto refused = kvtest::shell("$B/lesson11 --device cpu --file '" + file + "'");
  CHECK(refused.code == 2);
  CHECK(refused.err.find(file) != std::string::npos);
  std::filesystem::remove(file);
  run("--rounds 1 --file '" + file + "'");
  const auto other = kvtest::shell("$B/lesson11 --device cpu --window 8 --file '" + file + "'");
  CHECK(other.code == 2);
  CHECK(other.err.find("fingerprint") != std::string::npos);
  const auto block_size =
      kvtest::shell("$B/lesson11 --device cpu --block-size 8 --file '" + file + "'");
  CHECK(block_size.code == 2);
}
