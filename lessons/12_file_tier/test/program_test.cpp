// The program of lesson 12, and what it prints.

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/shell.h"
#include "tests/support/temp_dir.h"

namespace {

nlohmann::json run(const std::string& options) {
  const auto ran = kvtest::shell("$B/lesson12 --device cpu --json - " + options);
  CAPTURE(ran.err);
  REQUIRE(ran.code == 0);
  return nlohmann::json::parse(ran.out);
}

}  // namespace

TEST_CASE("the second start finds what the first one has computed, at equal bits") {
  const auto json = run("--starts 2");
  CHECK(json.at("same_bits") == true);
  const auto& starts = json.at("starts");
  REQUIRE(starts.size() == 2);
  CHECK(starts[0].at("restored_blocks") == 0);
  CHECK(starts[1].at("restored_blocks") > 5);
  CHECK(starts[1].at("found_tokens") > 100);
  CHECK(starts[1].at("computed_tokens") < starts[0].at("computed_tokens"));
}

TEST_CASE("a file stays from run to run, and a shorter prompt leaves it whole") {
  const kvtest::TempDir folder;
  const std::string file = (folder.path() / "a file").string();
  run("--starts 1 --file '" + file + "'");
  const auto size = std::filesystem::file_size(file);
  run("--starts 1 --prompt Once --max-tokens 2 --file '" + file + "'");
  CHECK(std::filesystem::file_size(file) >= size);
  CHECK(run("--starts 1 --file '" + file + "'").at("starts")[0].at("found_tokens") > 100);
}

TEST_CASE("a file that is no file of blocks, or another model's, is refused and left alone") {
  const kvtest::TempDir folder;
  const std::string file = (folder.path() / "file").string();
  std::ofstream(file) << std::string(10'000, 'x');
  const auto refused = kvtest::shell("$B/lesson12 --device cpu --file '" + file + "'");
  CHECK(refused.code == 2);
  CHECK(refused.err.find(file) != std::string::npos);
  std::filesystem::remove(file);
  run("--starts 1 --file '" + file + "'");
  const auto other = kvtest::shell("$B/lesson12 --device cpu --window 8 --file '" + file + "'");
  CHECK(other.code == 2);
  CHECK(other.err.find("fingerprint") != std::string::npos);
  CHECK(kvtest::shell("$B/lesson12 --device cpu --block-size 8 --file '" + file + "'").code == 2);
  const auto small =
      kvtest::shell("$B/lesson12 --device cpu --host-blocks 1 --file '" + file + "'");
  CHECK(small.err.find(", but the host would have 1 block; give it a block for each record") !=
        std::string::npos);
  CHECK(run("--starts 1 --file '" + file + "'").at("starts")[0].at("found_tokens") > 100);
}

TEST_CASE("blocks that the disk has no room for are told, and computed again") {
  const std::string full = "trap '' XFSZ; ulimit -f 200; $B/lesson12 --device cpu --starts 2 ";
  const auto told = kvtest::shell(full + "--file $T/file");
  CHECK(told.code == 0);
  CHECK(told.out.find("not written to the file: ") != std::string::npos);
  const auto json = nlohmann::json::parse(kvtest::shell(full + "--file $T/file --json -").out);
  CHECK(json.at("same_bits") == true);
  CHECK(json.at("starts")[1].at("not_written_blocks") > 0);
}

TEST_CASE("a folder for temporary files that is not there is refused by name") {
  kvtest::check_refused(kvtest::shell("TMPDIR=$T/none $B/lesson12 --device cpu"),
                        "/none: no folder for temporary files; set TMPDIR to one that");
}
