// The simulation on traces that are worked by hand, and its pool against the one of ./course
// replay.
#include "instruments/route/simulate.h"

#include <doctest/doctest.h>

#include <fstream>
#include <numeric>

#include "instruments/replay/caches.h"
#include "instruments/route/lru_blocks.h"
#include "tests/support/temp_dir.h"

using namespace route;

namespace {

Trace trace_of(std::vector<TraceRequest> requests) {
  return {.name = "trace", .block_size = 10, .requests = std::move(requests)};
}

/// 10 tokens of a prompt take a second, an answer's token a tenth.
constexpr Fleet kTwo{.num_servers = 2, .pool_blocks = 4, .prefill_rate = 10, .decode_rate = 10};

const std::string kExample = KV_SOURCE_DIR "/instruments/replay/example.jsonl";

}  // namespace

TEST_CASE("route: a pool evicts the prompt that was used longest ago, its tail first") {
  LruBlocks pool(4);
  pool.use(std::vector<uint64_t>{1, 2, 3});
  pool.use(std::vector<uint64_t>{9});
  pool.use(std::vector<uint64_t>{8});
  CHECK(pool.num_blocks() == 4);
  CHECK(pool.num_found(std::vector<uint64_t>{1, 2, 3}) == 2);
  pool.use(std::vector<uint64_t>{1, 2});  // 9 is the oldest now
  pool.use(std::vector<uint64_t>{7});
  CHECK(pool.num_found(std::vector<uint64_t>{9}) == 0);
  CHECK(pool.num_found(std::vector<uint64_t>{8}) == 1);
  pool.use(std::vector<uint64_t>{21, 22, 23, 24, 25});  // as far as it fits
  CHECK(pool.num_blocks() == 4);
  CHECK(pool.num_found(std::vector<uint64_t>{21, 22, 23, 24, 25}) == 4);
}

TEST_CASE("route: two servers, four requests, worked by hand") {
  const Trace trace = trace_of({
      {.seconds = 0, .input_tokens = 30, .output_tokens = 5, .blocks = {1, 2, 3}},
      {.seconds = 1, .input_tokens = 35, .output_tokens = 5, .blocks = {1, 2, 4}},
      {.seconds = 1, .input_tokens = 20, .output_tokens = 5, .blocks = {5, 6}},
      {.seconds = 9, .input_tokens = 40, .output_tokens = 5, .blocks = {1, 2, 4, 7}},
  });
  SUBCASE("round-robin") {
    // Server 0 has the first until 3 s, then the third (2 s) until 5 s: 3 s and 4 s. Server 1 has
    // the second, 3.5 s. The fourth finds 1, 2 and 4 there: 1 s.
    const PolicyResult result = simulate(trace, kTwo, Policy::kRoundRobin, 0);
    CHECK(result.first_token == std::vector<double>{1, 3, 3.5, 4});
    CHECK(result.blocks_asked == 12);
    CHECK(result.blocks_found == 3);
    CHECK(result.computed == std::vector<int64_t>{50, 45});
    CHECK(result.requests == std::vector<int64_t>{2, 2});
    CHECK(result.busiest() == doctest::Approx(50 / 47.5));
  }
  SUBCASE("seconds") {
    // The second waits 2 s and misses 15 tokens where the first is, or misses 35: 3.5 s each, a
    // tie. Apart from that tie, the third goes to the other server.
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const PolicyResult result = simulate(trace, kTwo, Policy::kSeconds, seed);
      CHECK(result.first_token.size() == 4);
      const bool together = result.blocks_found >= 5;  // the second found 1 and 2
      // Together: the first two end at 4.5 s, the third has the other server from 1 to 3 s. The
      // pool of four has dropped the tail 3, so that the fourth finds 1, 2 and 4.
      if (together) CHECK(result.first_token == std::vector<double>{1, 2, 3, 3.5});
      // Apart: the third goes where the first ends, at 3 s; the fourth to the second's server.
      if (!together) CHECK(result.first_token == std::vector<double>{1, 3, 3.5, 4});
    }
  }
  SUBCASE("overlap sends all that begin alike to one server") {
    const PolicyResult result = simulate(trace, kTwo, Policy::kOverlap, 3);
    // The third is nowhere, so it goes anywhere. If it is the same server, it evicts the tail 4.
    const bool all = result.requests == std::vector<int64_t>{4, 0} ||
                     result.requests == std::vector<int64_t>{0, 4};
    CHECK(result.blocks_found == (all ? 4 : 5));
  }
}

TEST_CASE("route: a busy server is left alone, and its cache pays as soon as the wait is short") {
  // At 0 s a prompt of 4 blocks, 4 s of work. At 1 s the same again: 3 s of wait and a token where
  // it is, 4 s elsewhere. At 1 s one of its first block alone: 3.1 s + 0 s there against 1 s.
  const Trace trace = trace_of({
      {.seconds = 0, .input_tokens = 40, .output_tokens = 1, .blocks = {1, 2, 3, 4}},
      {.seconds = 1, .input_tokens = 40, .output_tokens = 1, .blocks = {1, 2, 3, 4}},
      {.seconds = 1, .input_tokens = 10, .output_tokens = 1, .blocks = {1}},
  });
  const PolicyResult result = simulate(trace, kTwo, Policy::kSeconds, 0);
  CHECK(result.blocks_found == 4);
  REQUIRE(result.first_token.size() == 3);
  CHECK(result.first_token[0] == doctest::Approx(1));
  CHECK(result.first_token[1] == doctest::Approx(3.1));
  CHECK(result.first_token[2] == doctest::Approx(4));
  CHECK(result.first_token_at(.5) == doctest::Approx(3.1));
  CHECK(result.first_token_at(.99) == doctest::Approx(4));
  CHECK(result.first_token_at(0) == doctest::Approx(1));
}

TEST_CASE("route: one simulated server finds what lesson 07's pool finds") {
  const Trace trace = read_trace(kExample);
  CHECK(trace.requests.size() == 400);
  CHECK(trace.block_size == 512);
  for (const int blocks : {64, 256, 1024}) {
    const auto cache = replay::make_cache(replay::Victim::kLru, blocks, 0, nullptr);
    for (const TraceRequest& request : trace.requests) cache->run(request.blocks);
    const Fleet one{.num_servers = 1, .pool_blocks = blocks};
    const PolicyResult result = simulate(trace, one, Policy::kSeconds, 0);
    CHECK(result.blocks_asked == cache->counts().asked);
    CHECK(result.blocks_found == cache->counts().found);
  }
}

TEST_CASE("route: every policy serves every request, and the same seed gives the same result") {
  const Trace trace = read_trace(kExample, 4);
  CHECK(trace.requests.front().seconds == doctest::Approx(.270 / 4));
  for (const char* name : kPolicyNames) {
    const Fleet fleet{.num_servers = 4, .pool_blocks = 200};
    const PolicyResult one = simulate(trace, fleet, *policy_of(name), 5),
                       two = simulate(trace, fleet, *policy_of(name), 5);
    CHECK(one.first_token == two.first_token);
    CHECK(std::accumulate(one.requests.begin(), one.requests.end(), int64_t{0}) == 400);
    CHECK(one.busiest() >= 1);
  }
}

TEST_CASE("route: a trace whose times are missing or go back is refused") {
  const kvtest::TempDir dir;
  const auto refused = [&](const std::string& text, const char* wanted) {
    std::ofstream(dir.path() / "trace") << text;
    CHECK_THROWS_WITH(read_trace(dir.path() / "trace"), doctest::Contains(wanted));
  };
  const std::string rest = R"("input_length": 5, "output_length": 1, "hash_ids": [1]})";
  refused("{" + rest, "request 1: \"timestamp\" is missing");
  refused(R"({"timestamp": 5.5, )" + rest, "--time-unit s");
  CHECK(
      read_trace(dir.path() / "trace", 1, 16, replay::TimeUnit::kSeconds).requests.at(0).seconds ==
      5.5);
  refused(R"({"timestamp": 5, )" + rest + "\n" + R"({"timestamp": 4, )" + rest, "request 2");
}
