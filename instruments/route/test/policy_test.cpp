// Each policy's formula against cases that are worked by hand.
#include "instruments/route/policy.h"

#include <doctest/doctest.h>

#include <map>

using namespace route;

namespace {

/// 4,000 tokens in blocks of 500.
constexpr Prompt kPrompt{.tokens = 4000, .blocks = 8, .block_size = 500};

size_t chosen(Policy policy, const std::vector<ServerView>& servers) {
  return Chooser(policy, 1).choose(kPrompt, servers);
}

}  // namespace

TEST_CASE("route: names of policies") {
  for (const char* name : kPolicyNames) CHECK(name_of(*policy_of(name)) == std::string(name));
  CHECK(!policy_of("fastest"));
}

TEST_CASE("route: least takes the fewest requests, overlap the most blocks") {
  const std::vector<ServerView> servers{{.cached_blocks = 3, .running = 2},
                                        {.cached_blocks = 2, .running = 1},
                                        {.cached_blocks = 7, .running = 9}};
  CHECK(costs(Policy::kLeast, kPrompt, servers) == std::vector<double>{2, 1, 9});
  CHECK(costs(Policy::kOverlap, kPrompt, servers) == std::vector<double>{-3, -2, -7});
  CHECK(chosen(Policy::kLeast, servers) == 1);
  CHECK(chosen(Policy::kOverlap, servers) == 2);
}

TEST_CASE("route: seconds adds what waits and what is missing, over the server's own rate") {
  const std::vector<ServerView> servers{
      {.cached_blocks = 8, .waiting_tokens = 5000, .rate = 1000},  // 5 s + 0 s
      {.cached_blocks = 2, .waiting_tokens = 0, .rate = 1000},     // 0 s + 3 s
      {.cached_blocks = 0, .waiting_tokens = 1000, .rate = 2000},  // 0.5 s + 2 s
  };
  CHECK(costs(Policy::kSeconds, kPrompt, servers) == std::vector<double>{5, 3, 2.5});
  CHECK(chosen(Policy::kSeconds, servers) == 2);
}

TEST_CASE("route: seconds loads what the shared store has, where that is quicker") {
  const std::vector<ServerView> servers{
      {.cached_blocks = 1, .store_blocks = 5, .rate = 1000, .store_seconds = 0.25},  // 1 s + 1.25 s
      {.cached_blocks = 1, .store_blocks = 5, .rate = 1000, .store_seconds = 9},     // 1 s + 2.5 s
      {.cached_blocks = 5, .waiting_tokens = 500, .rate = 1000},                     // 2 s
  };
  CHECK(costs(Policy::kSeconds, kPrompt, servers) == std::vector<double>{2.25, 3.5, 2});
}

TEST_CASE("route: dynamo counts blocks that wait for prefill, less those cached, and blocks held") {
  const std::vector<ServerView> servers{
      {.cached_blocks = 8, .waiting_tokens = 2000, .held_blocks = 10},   // (6000 / 500 - 8) + 10
      {.cached_blocks = 0, .waiting_tokens = 500, .held_blocks = 4},     // 9 + 4
      {.cached_blocks = 12, .waiting_tokens = 1000, .held_blocks = 20},  // no less than 0, + 20
  };
  CHECK(costs(Policy::kDynamo, kPrompt, servers) == std::vector<double>{14, 13, 20});
}

TEST_CASE("route: llm-d weighs the prefix twice, then the free cache and the queue") {
  const std::vector<ServerView> servers{
      {.cached_blocks = 4, .held_blocks = 25, .pool_blocks = 100, .waiting = 4},   // 1 + .75 + 0
      {.cached_blocks = 0, .held_blocks = 50, .pool_blocks = 100, .waiting = 0},   // 0 + .5 + 1
      {.cached_blocks = 8, .held_blocks = 200, .pool_blocks = 100, .waiting = 3},  // 2 + 0 + .25
  };
  CHECK(costs(Policy::kLlmD, kPrompt, servers) == std::vector<double>{-1.75, -1.5, -2.25});
  SUBCASE("equal queues have the full score") {
    const std::vector<ServerView> equal{{.pool_blocks = 1, .waiting = 3},
                                        {.cached_blocks = 2, .pool_blocks = 1, .waiting = 3}};
    CHECK(costs(Policy::kLlmD, kPrompt, equal) == std::vector<double>{-2, -2.5});
  }
}

TEST_CASE("route: sglang takes a match that is long enough, else the smallest tree") {
  std::vector<ServerView> servers{{.sent_blocks = 3, .tree_blocks = 90, .running = 64},
                                  {.sent_blocks = 1, .tree_blocks = 20, .running = 0}};
  CHECK(chosen(Policy::kSglang, servers) == 0);  // 3 / 8 is over 0.3
  servers[0].sent_blocks = 2;
  CHECK(chosen(Policy::kSglang, servers) == 1);  // 2 / 8 is not
  SUBCASE(
      "and the shortest queue if one is more than 64 longer, and more than half as long again") {
    servers[0] = {.sent_blocks = 8, .tree_blocks = 1, .running = 65};
    CHECK(chosen(Policy::kSglang, servers) == 1);
    servers[0].running = 265, servers[1].running = 200;
    CHECK(chosen(Policy::kSglang, servers) == 0);  // 265 is less than 1.5 x 200
  }
}

TEST_CASE("route: ties are broken at random, by the seed") {
  const std::vector<ServerView> servers(4);
  for (const Policy policy : {Policy::kRandom, Policy::kLeast, Policy::kSeconds}) {
    Chooser one(policy, 7), two(policy, 7);
    std::map<size_t, int> times;
    for (int i = 0; i < 400; ++i) {
      const size_t index = one.choose(kPrompt, servers);
      CHECK(index == two.choose(kPrompt, servers));
      ++times[index];
    }
    REQUIRE(times.size() == 4);
    for (const auto& [index, count] : times) CHECK(count > 60);
  }
}

TEST_CASE("route: round-robin takes one after the other") {
  Chooser chooser(Policy::kRoundRobin, 0);
  const std::vector<ServerView> servers{{.running = 5}, {}, {}};
  for (const size_t wanted : {0u, 1u, 2u, 0u, 1u})
    CHECK(chooser.choose(kPrompt, servers) == wanted);
}
