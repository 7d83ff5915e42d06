// The program of lesson 11, and what it prints.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/support/shell.h"

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
  CHECK(rounds[1].at("host_tokens") > 100);
  CHECK(rounds[1].at("computed_tokens") < rounds[1].at("computed_tokens_without"));
}

TEST_CASE("with --policy never nothing is loaded") {
  const auto json = run("--policy never --rounds 2");
  for (const auto& round : json.at("rounds")) {
    CHECK(round.at("host_tokens") == 0);
    CHECK(round.at("computed_tokens") == round.at("computed_tokens_without"));
  }
}

TEST_CASE("no count of tokens is negative, however small the host's pool") {
  const auto json = run("--policy always --host-blocks 1");
  for (const auto& round : json.at("rounds")) {
    CHECK(round.at("device_tokens") >= 0);
    CHECK(round.at("host_tokens") >= 0);
  }
}
