// Tests of lesson 08's engine: whatever the scheduler does, the bits are those of lesson 02.

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/pool_sizes.h"
#include "cli/workload.h"
#include "common/error.h"
#include "served.h"
#include "tests/support/temp_dir.h"

namespace {

using kv::Arrival;
using kvtest::check_equal;
using kvtest::request_of;
using kvtest::shipped_model;
using lesson08::ServingEngine;
using lesson08_test::mixed;

kv::GenerateResult flat(std::span<const kv::Request> requests) {
  return lesson08_test::flat(shipped_model(), requests);
}

}  // namespace

TEST_CASE("pools, blocks, chunks, preemption, caching, resets: the same bits" *
          doctest::test_suite("sweep")) {
  lesson08_test::check_configurations(shipped_model(), 48);
}

TEST_CASE("a pool that holds the longest request and no more") {
  const std::vector<kv::Request> requests = mixed(10, 3);
  ServingEngine engine(shipped_model(), {.num_blocks = lesson08::max_blocks_of_one(requests, 16)});
  const auto result = engine.serve(requests, {});
  check_equal(result.generated, flat(requests));
  CHECK(result.num_preemptions > 0);
}

TEST_CASE("ends on a block boundary, with max_tokens 0 and 1, by a stop token, by a cancel") {
  std::vector<kv::Request> requests{request_of(16, 1),  request_of(15, 2), request_of(8, 0),
                                    request_of(27, 12), request_of(31, 1), request_of(32, 17)};
  auto first = flat(requests);
  requests[3].stop_token_ids = {first.completions[3].tokens[5]};
  const auto wanted = flat(requests);
  // Five of the six tokens have run: 32 slots, two full blocks.
  REQUIRE(wanted.completions[3].tokens.size() == 6);
  REQUIRE(wanted.completions[3].finish == kv::FinishReason::kStop);
  ServingEngine engine(shipped_model(), {.num_blocks = 6});
  check_equal(engine.generate(requests), wanted);
  CHECK(engine.manager()->pool().num_used() == 0);

  const auto cancelled = engine.generate(
      requests, [n = 0](size_t request, int32_t) mutable { return request != 5 || ++n < 3; });
  CHECK(cancelled.completions[5].finish == kv::FinishReason::kCancelled);
  CHECK(cancelled.completions[5].tokens.size() == 3);
  CHECK(cancelled.completions[3].logits_xxh64 == wanted.completions[3].logits_xxh64);
  CHECK(engine.manager()->pool().num_used() == 0);
}

TEST_CASE("whatever a callback throws, every block is free, and the next call is right") {
  const std::vector<kv::Request> requests = mixed(8, 5);
  const auto wanted = flat(requests);
  ServingEngine engine(shipped_model(), {.num_blocks = 24});
  lesson08_test::check_throwing_callbacks(engine, requests, wanted, 20);
}

TEST_CASE("a callback that ends the passes also ends the requests that wait") {
  const std::vector<kv::Request> requests = mixed(20, 5);
  ServingEngine engine(shipped_model(), {.num_blocks = 10});
  int seen = 0;
  const auto result = engine.serve(requests, {}, {}, [&](const auto&, const auto& output) {
    CHECK(!output.chunks.empty());
    return ++seen < 6;
  });
  CHECK(result.generated.passes.size() == 5);
  CHECK(result.generated.completions[19].finish == kv::FinishReason::kCancelled);
  CHECK(result.generated.completions[19].tokens.empty());
  engine.manager()->check();
  CHECK(engine.manager()->pool().num_used() == 0);
  check_equal(engine.generate(requests), flat(requests));
}

TEST_CASE("a request that can never fit is refused before anything is computed") {
  ServingEngine engine(shipped_model(), {.num_blocks = 4});
  const std::vector<kv::Request> requests{request_of(10, 5), request_of(60, 30)};
  int tokens = 0;
  CHECK_THROWS_WITH_AS(engine.generate(requests, [&](size_t, int32_t) { return ++tokens > 0; }),
                       doctest::Contains("request 1 needs 6 blocks, the pool has 4"),
                       kv::UserError);
  CHECK(tokens == 0);
}

TEST_CASE("later requests find what earlier ones computed, in one call and in the next") {
  std::vector<kv::Request> requests;
  std::vector<Arrival> arrivals;
  for (int i = 0; i < 4; ++i) {
    requests.push_back(kvtest::with_system_prompt(64, 5, i + 1, 6));
    arrivals.push_back({.pass = 3 * i});
  }
  ServingEngine engine(shipped_model(), {.num_blocks = 64});
  const auto result = engine.serve(requests, arrivals);
  check_equal(result.generated, flat(requests));
  CHECK(result.times[0].num_cached_tokens == 0);
  for (size_t i = 1; i < 4; ++i) CHECK(result.times[i].num_cached_tokens == 64);
  CHECK(result.generated.counters.named("cache_hit_tokens") == 3 * 64);
  const auto again = engine.serve(requests, {});
  CHECK(again.times[0].num_cached_tokens == 64);
  check_equal(again.generated, result.generated);
}

TEST_CASE("a file of requests: what is read, and what is refused with its line") {
  const kvtest::TempDir dir;
  const auto file = dir.path() / "requests.jsonl";
  const auto tokenizer = kv::Tokenizer::load(KV_SOURCE_DIR "/models/tiny");
  kv::Request defaults;
  defaults.max_tokens = 9;
  defaults.sampling.seed = 4;
  const auto load = [&](const std::string& text) {
    std::ofstream(file, std::ios::binary) << text;
    return lesson08::load_workload(file, tokenizer, defaults);
  };
  const auto workload = load(
      "{\"prompt\": \"Once upon a time\", \"max_tokens\": 3, \"pass\": 5, \"priority\": -2}\r\n"
      "\n{\"prompt\": \"A\"}\n{\"prompt\": \"B\", \"max_tokens\": 0, \"seed\": 8}");
  REQUIRE(workload.requests.size() == 3);
  CHECK(workload.requests[0].prompt == tokenizer.encode("Once upon a time"));
  CHECK(workload.requests[0].max_tokens == 3);
  CHECK(workload.arrivals[0].pass == 5);
  CHECK(workload.arrivals[0].priority == -2);
  CHECK(workload.requests[1].max_tokens == 9);
  CHECK(workload.arrivals[1].pass == 0);
  CHECK(workload.requests[1].sampling.seed == 4);
  CHECK(workload.requests[2].sampling.seed == 8);
  ServingEngine engine(shipped_model(), {});
  const auto result = engine.serve(workload.requests, workload.arrivals);
  check_equal(result.generated, flat(workload.requests));

  const std::string good = "{\"prompt\": \"A\"}\n";
  const std::pair<const char*, const char*> wrong[] = {
      {"{\"promt\": \"A\"}", "line 2: there is no key \"promt\""},
      {"{\"max_tokens\": 3}", "line 2: key \"prompt\" is missing"},
      {"{\"prompt\": \"\"}", "line 2: \"prompt\" is \"\""},
      {"{\"prompt\": 7}", "line 2: \"prompt\" is 7"},
      {"{\"prompt\": \"A\", \"max_tokens\": -1}", "\"max_tokens\" is -1"},
      {"{\"prompt\": \"A\", \"max_tokens\": 2.5}", "\"max_tokens\" is 2.5"},
      {"{\"prompt\": \"A\", \"pass\": -1}", "\"pass\" is -1"},
      {"{\"prompt\": \"A\"", "line 2"},
      {"[]", "line 2"},
      {"{\"prompt\": \"\xFF\"}", "line 2"}};
  for (const auto& one : wrong) {
    const auto& [line, message] = one;
    CAPTURE(one.first);
    CHECK_THROWS_WITH_AS(load(good + line), doctest::Contains(message), kv::UserError);
  }
  CHECK_THROWS_WITH_AS(load(" \n"), doctest::Contains("no request in it"), kv::UserError);
  CHECK_THROWS_AS(lesson08::load_workload(dir.path() / "none", tokenizer, defaults), kv::UserError);
}

TEST_CASE("times are in order") {
  const std::vector<kv::Request> requests = mixed(12, 9);
  ServingEngine engine(shipped_model(), {.num_blocks = 24});
  const auto result = engine.serve(requests, {});
  for (const auto& t : result.times) {
    CHECK(t.arrived <= t.first_token);
    CHECK(t.first_token <= t.ended);
  }
  CHECK(result.waste > 0);
  CHECK(result.waste < 0.5);
}

TEST_CASE("padded passes change no bit, and tokens chosen on the device are the same") {
  lesson08_test::check_padded(shipped_model());
  std::vector<kv::Request> requests = mixed(3, 11);
  for (kv::Request& request : requests) request.sampling.temperature = 0;
  ServingEngine engine(shipped_model(), {}, {.choose_on_device = true});
  requests[2].sampling.temperature = 0.5f;
  CHECK_THROWS_WITH_AS(engine.serve(requests, {}), doctest::Contains("request 2 has temperature"),
                       kv::UserError);
  CHECK_THROWS_AS(ServingEngine(shipped_model(), {}, {.pad_decodes_to = 0}), kv::UserError);
}

TEST_CASE(
    "before min_tokens no stop token is drawn, and the first one after them ends the request") {
  kv::Request request = request_of(9, 12);
  const auto free = flat({&request, 1}).completions[0];
  request.stop_token_ids = {free.tokens[2]};
  REQUIRE(flat({&request, 1}).completions[0].tokens.size() == 3);
  for (const int min_tokens : {3, 7, 12}) {
    request.min_tokens = min_tokens;
    ServingEngine engine(shipped_model(), {});
    const auto found = engine.generate({&request, 1});
    check_equal(found, flat({&request, 1}));
    const auto& tokens = found.completions[0].tokens;
    CHECK(std::ssize(tokens) >= min_tokens);
    CHECK(std::find(tokens.begin(), tokens.begin() + min_tokens, free.tokens[2]) ==
          tokens.begin() + min_tokens);
  }
  request.min_tokens = 13;
  CHECK_THROWS_WITH_AS(flat({&request, 1}), doctest::Contains("min_tokens is 13, wanted 0 to"),
                       kv::UserError);
}
