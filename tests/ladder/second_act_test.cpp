// The second act: each of its lessons is better than lesson 08 where it says so, at equal bits.
#include "second_act.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "qwen3/tokenizer.h"
#include "tests/support/shell.h"
#include "workload.h"

TEST_CASE(
    "where memory is short each of lessons 10 to 14 is better than lesson 08, at equal bits") {
  const std::filesystem::path tiny = KV_SOURCE_DIR "/models/tiny";
  kv::Model model = kv::Model::load(tiny, kv::Device::kCpu);
  kv::GenerateOptions generate;
  generate.max_tokens = 96;
  const auto workload =
      ladder::server_requests(generate, kv::Tokenizer::load(tiny), model.config()).workload;
  const ladder::Options half{256, ladder::kServerKvTokens / 2};
  const auto plain =
      ladder::climb(model, workload, std::span(ladder::lessons()).subspan(7, 1), half);
  const auto pairs = ladder::run_cases(model, workload, ladder::cases(), half);
  REQUIRE(pairs.size() == 5);
  int last = 9;
  for (const ladder::Pair& pair : pairs) {
    CAPTURE(pair.what.name);
    REQUIRE(pair.rungs.size() == 2);
    CHECK(pair.rungs[0].number == "08");
    CHECK(pair.rungs[1].number == std::to_string(++last));
    CHECK(ladder::first_mismatch(pair.rungs) == std::nullopt);  // FP8: rows rounded to FP8
    const int64_t before = pair.rungs[0].counters.*pair.what.gain;
    const int64_t now = pair.rungs[1].counters.*pair.what.gain;
    CHECK((pair.what.more ? now > before : now < before));
    const bool same_model = pair.what.window == 0 && pair.what.format == kv::KvFormat::kActivations;
    CHECK((pair.rungs[0].digest == plain[0].digest) == same_model);
    // A server that starts with nothing computes what the first one has computed.
    if (same_model) CHECK(pair.rungs[0].counters.by_name == plain[0].counters.by_name);
  }
  // Windows need fewer passes, too, and so does FP8, in half of the bytes.
  for (const size_t i : {0u, 4u}) {
    const auto& rungs = pairs[i].rungs;
    CHECK(rungs[1].counters.passes < rungs[0].counters.passes * 9 / 10);
    CHECK(rungs[1].counters.kv_bytes_reserved <=
          rungs[0].counters.kv_bytes_reserved / (i > 0 ? 2 : 1));
  }
  CHECK(model.config().windows.empty());
  CHECK(model.config().kv_format == kv::KvFormat::kActivations);
}

TEST_CASE("the ladder program prints both acts, the second one alone, and some of its rows") {
  const auto lines = [](const std::string& text, const std::string& word) {
    int count = 0;
    for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at) ++count;
    return count;
  };
  const std::string ladder = "COLUMNS=120 $B/ladder --device cpu --max-tokens 4 ";
  const auto both = kvtest::shell(ladder + "--without-times");
  REQUIRE(both.code == 0);
  CHECK(lines(both.out, "\n01 no_cache") == 1);
  CHECK(lines(both.out, "\nWhere memory is short: ") == 1);
  CHECK(lines(both.out, "\n14 fp8_pages") == 2);
  CHECK(lines(both.out, "\n08 scheduler") == 6);
  CHECK(lines(both.out, "\nOne digest all down the first table: ") == 1);
  CHECK(both.out.ends_with(" ./course viz 5\n"));
  const auto second = kvtest::shell(ladder + "--act 2 --lessons 8,12");
  CHECK(second.out.find("Where memory is short: ") == 0);
  CHECK(lines(second.out, "after a restart") == 2);
  CHECK(second.out == kvtest::shell(ladder + "--act 2 --lessons 12").out);
  const auto some = kvtest::shell(ladder + "--lessons 8,12");
  CHECK(lines(some.out, "\n12 file_tier") == 1);
  CHECK(some.out.find("short") == std::string::npos);
  CHECK(some.out.find("Next: ") == std::string::npos);
  const auto json = nlohmann::json::parse(kvtest::shell(ladder + "--act 2 --json -").out);
  CHECK_FALSE(json.contains("lessons"));
  REQUIRE(json.at("second_act").size() == 5);
  CHECK(json["second_act"][3].at("where") == "on the next server");
  CHECK(json["second_act"][3].at("lessons")[1].at("lesson") == "13");
  for (const char* args :
       {"--act 3", "--act 2 --lessons 7", "--act 2 --kv-tokens 416", "--act 2 --prompt a",
        "--act 2 --kv-dtype fp8", "--act 2 --window 32", "--act 2 --workload simple"}) {
    CAPTURE(args);
    kvtest::check_refused(kvtest::shell(std::string("$B/ladder ") + args), "error: --");
  }
}
