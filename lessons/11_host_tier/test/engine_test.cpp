// Tests of lesson 11's engine: blocks are offloaded and loaded, and the bits are those of lesson
// 02.

#include "two_tiers.h"

using lesson11::HostTierEngine;
using lesson11::LoadPolicy;

TEST_CASE("rounds, pools of any size, hashes that collide: the bits of a flat cache" *
          doctest::test_suite("sweep")) {
  kv::Model& model = kvtest::shipped_model();
  for (const auto kernel : {kv::Kernel::kFast, kv::Kernel::kPlain}) {
    model.set_kernel(kernel);
    lesson11_test::check_rounds(model, kernel == kv::Kernel::kFast ? 16 : 12);
  }
  model.set_kernel(kv::Kernel::kFast);
}

TEST_CASE("what the device has evicted is loaded and not computed again") {
  kv::Model& model = kvtest::shipped_model();
  const auto requests = lesson08_test::texts();  // three full blocks each
  lesson08::ServingEngine plain(model, {.num_blocks = 10});
  HostTierEngine engine(model, {.num_blocks = 10}, {},
                        {.host_blocks = 60, .policy = LoadPolicy::kAlways});
  plain.generate(requests), engine.generate(requests);
  const auto before = plain.generate(requests), now = engine.generate(requests);
  kvtest::check_equal(now, before);
  CHECK(now.counters.named("cache_hit_tokens") >= 8 * 48);
  CHECK(engine.manager()->metrics().num_hits_in_host >= 5 * 3);
  CHECK(now.counters.kv_rows_computed <= before.counters.kv_rows_computed - 5 * 48);
}

TEST_CASE("what is forgotten after a change of the weights is forgotten in both pools") {
  kv::Model& model = kvtest::shipped_model();
  const auto requests = lesson08_test::mixed(6);
  HostTierEngine engine(model, {.num_blocks = 14}, {},
                        {.host_blocks = 60, .policy = LoadPolicy::kAlways});
  const auto first = engine.generate(requests);
  engine.reset_prefix_cache();
  const auto second = engine.generate(requests);
  CHECK(second.counters.kv_rows_computed == first.counters.kv_rows_computed);
}

TEST_CASE("callbacks that throw at any token leave no block in use") {
  kv::Model& model = kvtest::shipped_model();
  const auto requests = lesson08_test::mixed(6);
  HostTierEngine engine(model, {.num_blocks = 14}, {.scheduler = {.max_tokens_per_pass = 32}},
                        {.host_blocks = 50, .policy = LoadPolicy::kAlways});
  lesson08_test::check_throwing_callbacks(engine, requests, lesson08_test::flat(model, requests),
                                          40);
}

TEST_CASE("padded passes and tokens that the device chooses change nothing") {
  lesson08_test::check_padded<HostTierEngine>(kvtest::shipped_model(), 30);
}

TEST_CASE("with a pool of a given size the host's memory is there before the first request") {
  kv::Model& model = kvtest::shipped_model();
  CHECK(HostTierEngine(model, {.num_blocks = 10}).manager()->host().num_blocks() == 40);
  HostTierEngine seven(model, {.num_blocks = 10}, {}, {.host_blocks = 7});
  CHECK(seven.manager()->host().num_blocks() == 7);
  CHECK(HostTierEngine(model, {}).server() == nullptr);
  const auto* const server = seven.server();
  seven.generate(lesson08_test::mixed(2));
  CHECK(seven.server() == server);
}

TEST_CASE("a host pool of no given size fits in a quarter of the free memory") {
  const kv::Model& model = kvtest::shipped_model();
  const lesson11::PagedOptions sized{.num_blocks = 10};
  const int64_t bytes = lesson11::bytes_per_block(model, sized);
  CHECK(lesson11::default_host_blocks(model, sized, 1'000 * bytes) == 40);
  CHECK(lesson11::default_host_blocks(model, sized, 100 * bytes) == 25);
  CHECK(lesson11::default_host_blocks(model, sized, bytes) == 1);
  CHECK(lesson11::default_host_blocks(model, {.num_blocks = INT32_MAX - 2}, INT64_MAX) > 1 << 30);
}
