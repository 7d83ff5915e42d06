// The program of lesson 10, and what it prints.

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/held_blocks.h"
#include "qwen3/kv_layout.h"
#include "tests/support/shell.h"

TEST_CASE("the program shows groups and tables, and has the bits of lesson 08") {
  const auto run =
      kvtest::shell("$B/lesson10 --device cpu --window 32 --full-every 3 --max-tokens 80 --json -");
  REQUIRE(run.code == 0);
  const auto json = nlohmann::json::parse(run.out);
  CHECK(json.at("same_bits") == true);
  const auto& groups = json.at("groups");
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].at("window") == 0);
  CHECK(groups[0].at("layers") == nlohmann::json{2, 5});
  CHECK(groups[1].at("window") == 32);
  const std::string table = json.at("tables")[1];
  CHECK(table.find("null, ") != std::string::npos);
  CHECK(json.at("max_bytes") < json.at("max_bytes_without"));
}

TEST_CASE("without options most layers have a window, and the program holds less than lesson 08") {
  const auto run = kvtest::shell("$B/lesson10 --device cpu --json -");
  REQUIRE(run.code == 0);
  const auto json = nlohmann::json::parse(run.out);
  CHECK(json.at("groups").size() == 6);
  CHECK(json.at("max_bytes") < json.at("max_bytes_without"));
}

TEST_CASE("without windows the program has one group, and holds what lesson 08 holds") {
  const auto run = kvtest::shell("$B/lesson10 --device cpu --window 0 --max-tokens 40 --json -");
  REQUIRE(run.code == 0);
  const auto json = nlohmann::json::parse(run.out);
  CHECK(json.at("same_bits") == true);
  CHECK(json.at("groups").size() == 1);
  CHECK(json.at("max_bytes") == json.at("max_bytes_without"));
}

TEST_CASE("what a sequence of Gemma 3 holds is what its windows touch") {
  const auto& models = kv::known_models();
  const auto gemma = std::ranges::find(models, "Gemma 3 27B", &kv::KnownModel::name);
  REQUIRE(gemma != models.end());
  const kv::ModelConfig config = lesson10::with_windows(*gemma);
  CHECK(std::ranges::count(config.windows, 0) == 10);
  CHECK(std::ranges::count(config.windows, 1024) == 52);
  const kv::KvGroup window{.num_layers = 52, .window = 1024};
  for (const int tokens : {1, 1000, 1024, 1030, 4096, 5001}) {
    CAPTURE(tokens);
    const auto held = lesson10::held_blocks(config, tokens, 16, 512);
    CHECK(held.full == (tokens + 15) / 16);
    CHECK(held.sliding == 6 * ((tokens + 15) / 16 - std::max(0, tokens - 1024) / 16));
    CHECK(held.sliding <= 6 * window.blocks_of(tokens, 16));
    CHECK(held.peak >= held.full + held.sliding);
    // 10 layers in a block, 16 heads of 128, K and V of 2 bytes.
    CHECK(held.bytes == (held.full + held.sliding) * 16 * 10 * 16 * 128 * 4);
    CHECK(held.all_bytes == held.full * 16 * 62 * 16 * 128 * 4);
  }
}

TEST_CASE("--held prints a line for each length, and runs no model") {
  const auto run = kvtest::shell("$B/lesson10 --held --model /nowhere --json -");
  REQUIRE(run.code == 0);
  const auto json = nlohmann::json::parse(run.out);
  REQUIRE(json.at("held").size() == 6);
  CHECK(json.at("held")[5].at("tokens") == 131'072);
  CHECK(json.at("held")[5].at("full_blocks") == 8192);
  CHECK(json.at("groups").size() == 7);
}
