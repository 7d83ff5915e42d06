// The text's further task, once it is begun: HostTierManager::offload() with a third argument, and
// HostTierOptions::offload_early.

#include "common/todo.h"
#include "tests/support/same_bits.h"
#include "two_pools.h"

using namespace lesson11_test;

namespace {

template <class Manager>
void offload_early(Manager& manager, int num_ahead = 0) {
  if constexpr (requires { manager.offload(num_ahead, 0, true); }) {
    manager.offload(num_ahead, 0, true);
  } else {
    KV_TODO("give HostTierManager::offload() a parameter early");
  }
}

template <class Options>
Options options_of(bool early) {
  Options options{.host_blocks = 60, .offload_ahead = 4};
  if constexpr (requires { options.offload_early = early; }) {
    options.offload_early = early;
  } else {
    KV_TODO("give HostTierOptions a member offload_early");
  }
  return options;
}

/// Number of blocks that are copied to the host when these requests are served twice.
int64_t num_offloaded(kv::Model& model, const std::vector<kv::Request>& requests, int num_blocks,
                      bool early) {
  const auto tier = options_of<HostTierOptions>(early);
  HostTierEngine engine(model, {.num_blocks = num_blocks}, {}, tier);
  lesson08::ServingEngine plain(model, {.num_blocks = num_blocks});
  for (int round = 0; round < 2; ++round) {
    kvtest::check_equal(engine.generate(requests), plain.generate(requests));
  }
  return engine.manager()->metrics().num_offloaded;
}

}  // namespace

TEST_CASE("early: full blocks are offloaded once, while their request holds them") {
  TwoPools t({.device = 6});
  t.compute(1, t.prompt(0, 18));
  offload_early(t.manager);
  CHECK(t.in_flight(Direction::kOffload) == Moves{{4, 1}, {3, 2}, {2, 3}, {1, 4}});
  t.end_copies();
  CHECK(t.content(Direction::kLoad, 4) == t.content(Direction::kOffload, 1));
  offload_early(t.manager);
  CHECK(t.manager.metrics().num_offloaded == 4);
  t.manager.check();
}

TEST_CASE("early: the tail is overwritten before the head") {
  TwoPools t({.device = 6});
  t.compute(1, t.prompt(0, 16));
  offload_early(t.manager);
  CHECK(queue_of(t.host) == Ids{5, 6, 7, 8, 1, 2, 3, 4});  // 4 holds the first tokens
}

TEST_CASE("early: what the host has already is not copied again") {
  TwoPools t;
  t.run(1, t.prompt(0, 8));
  t.offload_all();
  t.run(2, t.prompt(1, 16));  // evicts it
  t.run(1, t.prompt(0, 16));
  offload_early(t.manager);
  // Text 1 was evicted before it was offloaded, and the host has two blocks of text 0.
  CHECK(t.in_flight(Direction::kOffload).size() == 2);
}

TEST_CASE("early: a block that was full and is given out again is not offloaded") {
  TwoPools t({.device = 2});
  t.run(1, t.prompt(0, 8));
  REQUIRE(t.manager.allocate_slots(2, 8));  // takes both, and has computed nothing yet
  offload_early(t.manager);
  CHECK(t.in_flight(Direction::kOffload).empty());
  CHECK(t.host.num_cached() == 0);
}

TEST_CASE("early: the next victims are offloaded, too, and each block once") {
  TwoPools t({.device = 6});
  t.run(1, t.prompt(0, 8));
  t.offload();
  t.compute(2, t.prompt(1, 8));
  t.manager.free(2);  // full since the last call, and a victim
  offload_early(t.manager, 64);
  CHECK(t.manager.metrics().num_offloaded == 4);
}

TEST_CASE("early: all is copied where there is room, and late only what is evicted soon") {
  kv::Model& model = kvtest::shipped_model();
  std::vector<kv::Request> requests;  // three full blocks each, and one of prompt and answer
  for (int i = 0; i < 6; ++i) requests.push_back(kvtest::request_of(52 + i, 16, i));
  CHECK(num_offloaded(model, requests, 60, true) == 6 * 4);
  CHECK(num_offloaded(model, requests, 60, false) == 0);
  CHECK(num_offloaded(model, requests, 10, true) == 6 * 4);
  CHECK(num_offloaded(model, requests, 10, false) > 6 * 3);
}
