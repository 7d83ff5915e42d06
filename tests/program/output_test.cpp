// Tables, numbers for people, charts and JSON files.

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/hash.h"
#include "common/table.h"
#include "common/terminal.h"
#include "programs/lab.h"
#include "qwen3/generation.h"
#include "qwen3/known_models.h"
#include "tests/support/shell.h"

using kvtest::text_of;

TEST_CASE("bytes for people are exact or have one decimal") {
  CHECK(kv::human_bytes(0) == "0 B");
  CHECK(kv::human_bytes(1023) == "1023 B");
  CHECK(kv::human_bytes(1024) == "1 KiB");
  CHECK(kv::human_bytes(114'688) == "112 KiB");
  CHECK(kv::human_bytes(117'440'512) == "112 MiB");
  CHECK(kv::human_bytes(1536) == "1.5 KiB");
  CHECK(kv::human_bytes(206'976 * 1024) == "202.1 MiB");
  CHECK(kv::human_bytes(8LL << 30) == "8 GiB");
  CHECK(kv::human_bytes(3LL << 50) == "3 PiB");
  CHECK(kv::human_bytes(3LL << 59) == "1.5 EiB");
}

TEST_CASE("one thing is told from several") {
  CHECK(kv::count_of(1, "block") == "1 block");
  CHECK(kv::count_of(0, "block") == "0 blocks");
  CHECK(kv::count_of(2048, "block") == "2,048 blocks");
  CHECK(kv::count_of(1, "forward pass") == "1 forward pass");
  CHECK(kv::count_of(2, "forward pass") == "2 forward passes");
  CHECK(kv::count_of(3, "batch") == "3 batches");
}

TEST_CASE("numbers get commas and parts get percents") {
  CHECK(kv::with_commas(0) == "0");
  CHECK(kv::with_commas(999) == "999");
  CHECK(kv::with_commas(1000) == "1,000");
  CHECK(kv::with_commas(-1234567) == "-1,234,567");
  CHECK(kv::with_commas(-123) == "-123");
  CHECK(kv::percent(1848, 4096) == "45.1 %");
  CHECK(kv::percent(0, 0) == "-");
  CHECK(kv::hex64(0xabcu) == "0000000000000abc");
}

TEST_CASE("a table is aligned even with text beyond ASCII") {
  kv::Table table({"name", "n"});
  table.add({"größe", "1"});
  table.add({"█▌", "1,000"});
  table.add({"short"});
  CHECK(table.to_string() ==
        "name       n\n"
        "-----  -----\n"
        "größe      1\n"
        "█▌     1,000\n"
        "short\n");
}

TEST_CASE("a table has room in a narrow terminal") {
  kv::Table table({"", "first token, p50", "found at"});
  table.add({"room for the longest request", "12.5 ms", "1"});
  table.add({"  by priority", "7 ms", "12"});
  CHECK(table.to_string(56) ==
        "                              first token, p50  found at\n"
        "----------------------------  ----------------  --------\n"
        "room for the longest request           12.5 ms         1\n"
        "  by priority                             7 ms        12\n");
  CHECK(table.to_string(50) ==
        "                                   first\n"
        "                              token, p50  found at\n"
        "----------------------------  ----------  --------\n"
        "room for the longest request     12.5 ms         1\n"
        "  by priority                       7 ms        12\n");
  CHECK(table.to_string(32) ==
        "                     first\n"
        "                    token, found\n"
        "                       p50    at\n"
        "------------------ ------- -----\n"
        "room for the       12.5 ms     1\n"
        "longest request\n"
        "  by priority         7 ms    12\n");
}

TEST_CASE("a record is a line of the table and an object of the JSON") {
  kv::Records records;
  CHECK(records.table().empty());
  CHECK(records.json().dump() == "[]");
  records.add({{"way", "none"}, {"rows", "-"}, {"time", "-"}, {"same bits", "-"}});
  records.add({{"way", "with", "way"},
               {"rows", kv::counted(1234), "rows"},
               {"time", kv::ms(0.0125, 1), "seconds"},
               {"same bits", true}});
  records.note("passes", 3);
  CHECK(records.table() ==
        "way    rows     time  same bits\n"
        "----  -----  -------  ---------\n"
        "none      -        -          -\n"
        "with  1,234  12.5 ms        yes\n");
  CHECK(records.json().dump() == R"([{"passes":3,"rows":1234,"seconds":0.0125,"way":"with"}])");
  CHECK(kv::Shown(false).text == "NO");
  CHECK(kv::share(451, 1000).text == "45.1 %");
}

TEST_CASE("lines are broken at spaces, and what follows is below the last column") {
  const std::string text =
      "A line that is too long for thirty columns.\n\n"
      "  --option X  what it does, in größer words\n"
      "a_word_that_is_longer_than_thirty_columns stays\nshort\n";
  CHECK(kv::wrapped(text, 1000) == text);
  CHECK(kv::wrapped("no end", 30) == "no end");
  CHECK(kv::wrapped(text, 30) ==
        "A line that is too long for\nthirty columns.\n\n"
        "  --option X  what it does, in\n              größer words\n"
        "a_word_that_is_longer_than_thirty_columns\nstays\nshort\n");
  CHECK(kv::output_columns() > 0);
}

TEST_CASE("a bar is as long as its share in eighths of a column") {
  CHECK(kv::bar(1, 1, 3) == "███");
  CHECK(kv::bar(1, 2, 3) == "█▌");
  CHECK(kv::bar(5, 1, 2) == "██");
  CHECK(kv::bar(0, 1, 3).empty());
  CHECK(kv::bar(1, 0, 3).empty());
}

TEST_CASE("a chart has a line for the first pass and no more lines than asked for") {
  std::vector<kv::PassCost> passes{{.rows = 40, .seconds = 0.004}};
  CHECK(kv::passes_chart({}, 5).find("ms") == std::string::npos);
  for (int i = 1; i < 100; ++i) passes.push_back({.rows = 1, .seconds = 0.001});
  const std::string chart = kv::passes_chart(passes, 5);
  CHECK(std::count(chart.begin(), chart.end(), '\n') <= 6);
  CHECK(chart.find("       1           40     4.00 ms  █") != std::string::npos);
  CHECK(chart.find("-100  ") != std::string::npos);
}

TEST_CASE("the digest depends on every logit and their order") {
  const std::vector<float> a{1.0f, 2.0f}, b{2.0f, 1.0f};
  kv::LogitsDigest once, twice, swapped;
  once.add(a), once.add(b);
  twice.add(std::vector<float>{1.0f, 2.0f, 2.0f, 1.0f});
  swapped.add(b), swapped.add(a);
  CHECK(once.value() == twice.value());
  CHECK(once.value() != swapped.value());
  CHECK(kv::LogitsDigest().value() == 0xef46db3751d8e999u);  // XXH64 of nothing
  CHECK(kv::xxh64({}) == 0xef46db3751d8e999u);
}

TEST_CASE("the peak of KV bytes is one moment") {
  kv::EngineCounters counters;
  kv::note_kv_bytes(counters, 100, 10);
  kv::note_kv_bytes(counters, 100, 30);
  kv::note_kv_bytes(counters, 100, 20);
  CHECK(counters.kv_bytes_used == 30);
  kv::note_kv_bytes(counters, 200, 5);
  CHECK(counters.kv_bytes_reserved == 200);
  CHECK(counters.kv_bytes_used == 5);
  kv::note_kv_bytes(counters, 150, 150);
  CHECK(counters.kv_bytes_reserved == 200);
  CHECK(counters.kv_bytes_used == 5);
}

TEST_CASE("JSON is written whole or not at all") {
  const kvtest::TempDir dir;
  const std::string file = (dir.path() / "out.json").string();
  kv::write_json(file, {{"a", 1}});
  CHECK(nlohmann::json::parse(text_of(file)) == nlohmann::json{{"a", 1}});
  kv::write_json(file, {{"prompt", "\xff bytes"}});
  CHECK(nlohmann::json::parse(text_of(file))["prompt"] == "\xEF\xBF\xBD bytes");
  CHECK_THROWS_AS(kv::write_json((dir.path() / "no" / "out.json").string(), {}), kv::UserError);
  CHECK_THROWS_AS(kv::write_json(dir.path().string(), {}), kv::UserError);
  CHECK_THROWS_WITH_AS(kv::write_json("/dev/full", {{"a", 1}}),
                       doctest::Contains("No space left on device"), kv::UserError);
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 1);
  kv::write_json("", {{"a", 1}});  // no file was asked for
}

TEST_CASE("a request computes its prompt and all generated tokens but the last") {
  kv::Request request;
  request.prompt = {1, 2, 3};
  for (const auto& [max_tokens, wanted] : {std::pair{0, 0}, {1, 3}, {2, 4}, {10, 12}}) {
    request.max_tokens = max_tokens;
    CHECK(kv::tokens_to_compute(request) == wanted);
  }
  request.max_tokens = 2147483647;
  CHECK(kv::tokens_to_compute(request) == 2147483649);
}

TEST_CASE("known models have the published widths") {
  CHECK(kv::known_models().size() == 4);
  CHECK(kv::known_model("Qwen3-0.6B").config.kv_bytes_per_token(2) == 114'688);
  CHECK_THROWS_AS(static_cast<void>(kv::known_model("none")), std::out_of_range);
}
