#pragma once

// Checks that the bits are those of lesson 02, wherever a block has been. For any device.

#include <doctest/doctest.h>

#include "lessons/08_scheduler/test/served.h"
#include "lessons/11_host_tier/engine.h"
#include "tests/support/windowed_model.h"

namespace lesson11_test {

using lesson11::HostTierEngine;

/// Rounds of the same requests: pools with and without room, caching, chunks, preemption, resets,
/// weak hashes. Checks the bits of all of them, and that blocks are loaded.
inline void check_rounds(kv::Model& model, int num_requests) {
  const auto requests = lesson08_test::mixed(num_requests);
  const auto wanted = lesson08_test::flat(model, requests);
  int64_t loaded = 0;
  const auto check = [&](const lesson08_test::Config& c, const lesson11::HostTierOptions& tier) {
    CAPTURE(c.block_size);
    CAPTURE(c.num_blocks);
    CAPTURE(tier.host_blocks);
    const lesson08::ServeOptions serve{
        .scheduler = c.scheduler, .hasher = lesson06::narrow_hasher(c.bits), .caching = c.caching};
    HostTierEngine engine(model, {c.block_size, c.num_blocks}, serve, tier);
    for (int round = 0; round < 2; ++round) {
      lesson08_test::check_served(engine, requests, wanted, round == 0 ? c.reset_every : 0);
      engine.manager()->check();
    }
    loaded += engine.manager()->metrics().num_hits_in_host * c.block_size;
  };
  constexpr auto kAlways = lesson11::LoadPolicy::kAlways;
  check({16, 40, {}}, {200, kAlways});
  check({16, 24, {.max_tokens_per_pass = 64, .max_chunk = 16}, 3}, {100, kAlways});
  check({4, 60, {.max_tokens_per_pass = 32, .max_running = 8}}, {60, kAlways});
  check({16, 20, {.max_tokens_per_pass = 150}, 64, true, 5}, {10, kAlways});
  check({16, 20, {.full_sequence_must_fit = false}}, {1, kAlways});
  check({16, 20, {.max_tokens_per_pass = 150, .chunked_prefill = false}}, {40, kAlways});
  check({16, 20, {}}, {40});
  check({16, 20, {}}, {40, lesson11::LoadPolicy::kNever});
  check({16, 20, {}}, {40, kAlways, 2});
  check({16, 20, {}}, {40, kAlways, 64, 1});
  check({64, 9, {}, 64, false}, {20, kAlways});
  check({1, 300, {.max_chunk = 7}, 0}, {2000, kAlways});
  CHECK(loaded > 50 * num_requests);
}

}  // namespace lesson11_test
