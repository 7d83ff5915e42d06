// The server's other output: its counters, the events of its cache, and pages.
#include <fstream>
#include <map>
#include <sstream>

#include "instruments/serve/events.h"
#include "instruments/serve/metrics.h"
#include "instruments/serve/pages.h"
#include "instruments/serve/test/support.h"
#include "tests/support/temp_dir.h"

TEST_CASE("metrics: the text that Prometheus reads") {
  CHECK(serve::escaped("a\"b\\c\nd") == "a\\\"b\\\\c\\nd");
  serve::Histogram histogram("h", "Help.", {1, 2.5});
  for (const double value : {0.5, 1.0, 2.0, 7.0}) histogram.observe(value);
  CHECK(histogram.text("m=\"x\"") ==
        "# HELP h Help.\n# TYPE h histogram\n"
        "h_bucket{m=\"x\",le=\"1.0\"} 2\nh_bucket{m=\"x\",le=\"2.5\"} 3\n"
        "h_bucket{m=\"x\",le=\"+Inf\"} 4\nh_sum{m=\"x\"} 10.5\nh_count{m=\"x\"} 4\n");
  serve::Metrics metrics("a\"b", 100, 16, 8);
  metrics.time_to_first_token.observe(0.3);
  std::istringstream lines(metrics.text());
  std::map<std::string, int> samples;
  std::string line, family;
  double last = 0;
  while (std::getline(lines, line)) {
    if (line.starts_with("# TYPE ")) family = line.substr(7, line.rfind(' ') - 7), last = 0;
    if (line.starts_with("#")) continue;
    const size_t space = line.rfind(' '), brace = line.find('{');
    REQUIRE(line.substr(0, brace).starts_with(family));
    REQUIRE(line[space - 1] == '}');
    CHECK(line.find("a\\\"b") != (family == "vllm:cache_config_info" ? 0 : line.npos));
    const double value = std::stod(line.substr(space));
    if (line.find("_bucket{") != line.npos) {
      CHECK(value >= last);
      last = value;
    }
    ++samples[family];
  }
  CHECK(samples["vllm:time_to_first_token_seconds"] == 22 + 3);
  CHECK(samples["vllm:request_prompt_tokens"] == 7 + 3);  // 1 2 5 10 20 50 100
  CHECK(samples["vllm:request_success_total"] == 5);
  CHECK(samples["vllm:external_prefix_cache_hits_total"] == 1);
}

TEST_CASE("events: frames as server-sent events, what was missed, and a snapshot") {
  serve::CacheEvents events(2);
  const auto frame = [](uint64_t seq, std::vector<watch::Event> list) {
    return watch::Frame{seq, watch::encode({.ts = 1, .events = std::move(list)})};
  };
  CHECK(events.snapshot(4, 9) == R"({"seq":-1,"block_size":4,"num_blocks":9,"blocks":[]})");
  const watch::BlockStored first{
      .block_hashes = {watch::hash_of(1)}, .token_ids = {5, 6}, .block_size = 2};
  const watch::BlockStored second{.block_hashes = {watch::hash_of(2)},
                                  .parent_block_hash = watch::hash_of(1),
                                  .token_ids = {7, 8},
                                  .block_size = 2};
  CHECK(
      events.add(frame(0, {first})) ==
      R"(id: 0
data: {"seq":0,"ts":1.0,"events":[{"type":"BlockStored","block_hashes":["0000000000000001"],)"
      R"("parent_block_hash":null,"token_ids":[5,6],"block_size":2,"medium":"GPU","group_idx":0}]})"
      "\n\n");
  const std::string one = events.add(frame(1, {second}));
  const auto blocks = nlohmann::json::parse(events.snapshot(2, 9));
  CHECK(blocks["seq"] == 1);
  CHECK(blocks["blocks"].size() == 2);
  CHECK(blocks["blocks"][1]["parent"] == "0000000000000001");
  const std::string two =
      events.add(frame(2, {watch::BlockRemoved{.block_hashes = {watch::hash_of(1)}}}));
  CHECK(events.after(0) == one + two);
  CHECK(events.after(1) == two);
  CHECK(events.after(2) == "");
  CHECK(nlohmann::json::parse(events.snapshot(2, 9))["blocks"][0]["parent"] == "");
}

TEST_CASE("pages: a path stays inside its folder") {
  const kvtest::TempDir dir;
  std::filesystem::create_directory(dir.path() / "web");
  std::ofstream(dir.path() / "secret") << "x";
  std::ofstream(dir.path() / "web" / "index.html") << "x";
  const auto found = [&](const std::string& path) {
    return serve::file_in(dir.path() / "web", path).has_value();
  };
  CHECK(found(""));
  CHECK(found("index.html"));
  for (const std::string path : {"../secret", "/etc/passwd", "a/../../secret", ".", "no"}) {
    CAPTURE(path);
    CHECK(!found(path));
  }
  CHECK(!found(std::string("index.html\0x", 12)));
  CHECK(serve::content_type_of("a.wasm") == std::string("application/wasm"));
}
