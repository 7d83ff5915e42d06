// ./course route as a user starts it.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/support/shell.h"

using kvtest::check_refused;
using kvtest::shell;

namespace {
bool shows(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
}  // namespace

TEST_CASE("route: a simulation's table, plot and numbers") {
  const auto out = shell(
      "$B/route --simulate $S/instruments/replay/example.jsonl --servers 4 --pool-blocks 300 "
      "--plot $T/p && cat $T/p");
  CAPTURE(out.err);
  REQUIRE(out.code == 0);
  CHECK(out.out.starts_with(
      "example.jsonl: 400 requests to 4 servers, each with 300 blocks of 512 tokens\n"));
  for (const char* name : {"round-robin", "sglang", "llm-d", "seconds"}) {
    CHECK(shows(out.out, "\n" + std::string(name) + " "));
  }
  CHECK(shows(out.out, "</svg>"));
  const auto json =
      shell("$B/route --simulate $S/instruments/replay/example.jsonl --policy overlap --json -");
  CHECK(json.code == 0);
  const auto numbers = nlohmann::json::parse(json.out);
  REQUIRE(numbers["policies"].size() == 1);
  CHECK(numbers["policies"][0]["policy"] == "overlap");
  CHECK(numbers["policies"][0]["blocks_asked"] == 5825);
  CHECK(numbers["policies"][0]["requests"].size() == 8);
}

TEST_CASE("route: help, and options that are wrong") {
  const auto help = shell("$B/route --help");
  CHECK(help.code == 0);
  for (const char* name : {"--policy", "--simulate", "--pool-blocks", "--seed"}) {
    CHECK(shows(help.out, name));
  }
  check_refused(shell("$B/route --policy fastest"), "fastest");
  check_refused(shell("$B/route"), "--simulate");
  check_refused(shell("$B/route --seed x"), "'x' is not allowed, wanted 0 to");
  check_refused(shell("$B/route --server http://x --api-key ''"), "--api-key");
  check_refused(shell("$B/route --server https://x"), "--server");
  check_refused(shell("$B/route --server http://localhost:1 --server http://127.0.0.1:1/v1"),
                "--server http://127.0.0.1:1/v1: found twice");
  check_refused(shell("$B/route --server http://x --prefill http://x"),
                "--prefill http://x: found");
  check_refused(shell("$B/route --server http://x --model $T"), "tokenizer");
  check_refused(shell("$B/route --simulate $T/none"), "no such file");
  check_refused(
      shell("$B/route --simulate $S/instruments/replay/example.jsonl --plot $T/x --json $T/x"),
      "--plot");
}
