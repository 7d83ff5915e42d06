#pragma once

// Checks that servers over one store give the bits of lesson 02. For any device.

#include "tests/support/readable.h"  // before the checks

#include "lessons/08_scheduler/test/served.h"
#include "lessons/13_shared_tier/cli/memory_store.h"
#include "lessons/13_shared_tier/engine.h"

namespace lesson13_test {

using lesson11::LoadPolicy;
using lesson13::MemoryStore;
using lesson13::SharedTierEngine;

inline lesson13::SharedTierOptions always(int host_blocks = 60,
                                          const lesson13::SharedOptions& shared = {}) {
  return {.host = {.host_blocks = host_blocks, .policy = LoadPolicy::kAlways},
          .shared = shared,
          .policy = LoadPolicy::kAlways};
}

/// Two servers in turn over one store, in pools with and without room, with chunks, preemption,
/// resets, weak hashes, a small store. Checks the bits of all of them, and that blocks travel.
inline void check_servers(kv::Model& model, int num_requests) {
  const auto requests = lesson08_test::mixed(num_requests);
  const auto wanted = lesson08_test::flat(model, requests);
  int64_t fetched = 0, hits = 0;
  const auto check = [&](const lesson08_test::Config& c, int host_blocks,
                         size_t max_bytes = SIZE_MAX) {
    CAPTURE(c.block_size);
    CAPTURE(c.num_blocks);
    CAPTURE(host_blocks);
    const lesson08::ServeOptions serve{
        .scheduler = c.scheduler, .hasher = lesson06::narrow_hasher(c.bits), .caching = c.caching};
    MemoryStore store(max_bytes);
    SharedTierEngine one(model, {c.block_size, c.num_blocks}, store, serve, always(host_blocks));
    SharedTierEngine other(model, {c.block_size, c.num_blocks}, store, serve,
                           always(host_blocks, {.check_every = 3}));
    for (int round = 0; round < 2; ++round) {
      for (auto* engine : {&one, &other}) {
        lesson08_test::check_served(*engine, requests, wanted, round == 0 ? c.reset_every : 0);
        engine->settle();
        engine->manager()->check();
        CHECK(engine->manager()->host().num_used() == 0);
        const lesson13::SharedMetrics& metrics = engine->server()->tier().metrics();
        CHECK(metrics.num_damaged + metrics.num_poisoned + metrics.num_changed_here == 0);
      }
    }
    fetched += other.server()->tier().metrics().num_fetched * c.block_size;
    hits += other.manager()->metrics().num_hits_in_host * c.block_size;
  };
  check({16, 40, {}}, 200);
  check({16, 24, {.max_tokens_per_pass = 64, .max_chunk = 16}, 3}, 100);
  check({4, 60, {.max_tokens_per_pass = 32, .max_running = 8}}, 400);
  check({16, 20, {.max_tokens_per_pass = 150}, 64, true, 5}, 40);
  check({16, 20, {.full_sequence_must_fit = false}}, 3);
  check({16, 20, {.max_tokens_per_pass = 150, .chunked_prefill = false}}, 40, 100'000);
  check({64, 9, {}, 64, false}, 20);
  check({1, 300, {.max_chunk = 7}, 0}, 2000);
  CHECK(fetched > 20 * num_requests);
  CHECK(hits > 20 * num_requests);
}

}  // namespace lesson13_test
