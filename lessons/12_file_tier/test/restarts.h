#pragma once

// Checks that servers that start one after the other with one file give the bits of lesson 02. For
// any device.

#include <doctest/doctest.h>

#include <string>

#include "lessons/08_scheduler/test/served.h"
#include "lessons/12_file_tier/engine.h"
#include "tests/support/temp_dir.h"

namespace lesson12_test {

using lesson12::FileTierEngine;

inline void check_starts(kv::Model& model, int num_requests) {
  const auto requests = lesson08_test::mixed(num_requests);
  const auto wanted = lesson08_test::flat(model, requests);
  const kvtest::TempDir folder;
  int64_t restored = 0, loaded = 0;
  int number = 0;
  const auto check = [&](const lesson08_test::Config& c, const lesson11::HostTierOptions& host) {
    CAPTURE(c.block_size);
    CAPTURE(c.num_blocks);
    CAPTURE(host.host_blocks);
    const lesson08::ServeOptions serve{
        .scheduler = c.scheduler, .hasher = lesson06::narrow_hasher(c.bits), .caching = c.caching};
    const lesson12::FileTierOptions tier{.host = host,
                                         .file = folder.path() / std::to_string(++number)};
    for (int start = 0; start < 2; ++start) {
      FileTierEngine engine(model, {c.block_size, c.num_blocks}, serve, tier);
      for (int round = 0; round < 2; ++round) {
        lesson08_test::check_served(engine, requests, wanted, round == 0 ? c.reset_every : 0);
        engine.manager()->check();
      }
      restored += engine.server()->metrics().num_restored;
      loaded += engine.manager()->metrics().num_hits_in_host;
    }
  };
  constexpr auto kAlways = lesson11::LoadPolicy::kAlways;
  check({16, 24, {.max_tokens_per_pass = 64}}, {30, kAlways});
  check({4, 60, {.max_tokens_per_pass = 32, .max_running = 8}}, {400, kAlways});
  check({16, 20, {.max_tokens_per_pass = 150}, 64, true, 5}, {40, kAlways});
  check({16, 20, {.full_sequence_must_fit = false}, 3}, {100, kAlways});
  check({16, 20, {}}, {40});
  check({64, 9, {}, 64, false}, {20, kAlways});
  CHECK(restored > 4 * num_requests);
  CHECK(loaded > 4 * num_requests);
}

}  // namespace lesson12_test
