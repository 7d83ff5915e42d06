// The programs of lesson 14: what they print, and what they refuse.

#include "tests/support/readable.h"  // before the checks

#include <nlohmann/json.hpp>

#include "tests/support/shell.h"

TEST_CASE("the program shows that FP8 fits twice the tokens and has the bits of rounded rows") {
  const auto ran = kvtest::shell("$B/lesson14 --device cpu --num-requests 24 --json -");
  CAPTURE(ran.err);
  REQUIRE(ran.code == 0);
  const auto json = nlohmann::json::parse(ran.out);
  CHECK(json.at("same_bits") == true);
  CHECK(json.at("bytes_per_token") == 1536);
  CHECK(json.at("fp8_bytes_per_token") == 792);
  const auto& runs = json.at("runs");
  REQUIRE(runs.size() == 3);
  CHECK(runs[0].at("tokens_fit") == 640);
  CHECK(runs[1].at("tokens_fit") == 1232);
  CHECK(runs[1].at("preemptions") < runs[0].at("preemptions"));
  CHECK(runs[1].at("passes") < runs[0].at("passes"));
  CHECK(runs[1].at("logits_xxh64") == runs[2].at("logits_xxh64"));
  CHECK(runs[1].at("logits_xxh64") != runs[0].at("logits_xxh64"));
}

TEST_CASE("wrong options are refused") {
  kvtest::check_refused(kvtest::shell("$B/lesson14 --device cpu --block-size 3"), "block-size");
  kvtest::check_refused(kvtest::shell("$B/lesson14 --device cpu --kv-dtype int4"), "kv-dtype");
}
