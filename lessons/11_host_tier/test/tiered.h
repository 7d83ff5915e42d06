#pragma once

// Wherever a block has been, the bits are those of lesson 02. For a model on any device.

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "lessons/08_scheduler/test/served.h"
#include "lessons/11_host_tier/engine.h"
#include "tests/support/temp_dir.h"
#include "tests/support/windowed_model.h"

using lesson11::TieredEngine;

namespace lesson11_test {

/// A way to keep blocks: of the host and of the file; no file: 0.
struct Below {
  int host_blocks, file_blocks;
  lesson11::LoadPolicy policy = lesson11::LoadPolicy::kAlways;
  lesson11::TierOptions tiers{};
};

/// Three rounds of the same requests, by engines that take over from each other what the file
/// holds: pools with and without room, caching, chunks, preemption, resets, weak hashes. In all of
/// them the bits are the wanted ones, and blocks sink and rise.
inline void check_rounds(kv::Model& model, int num_requests) {
  const auto requests = lesson08_test::mixed(num_requests);
  const auto wanted = lesson08_test::flat(model, requests);
  const kvtest::TempDir folder;
  int64_t loaded = 0, from_file = 0;
  int number = 0;
  const auto check = [&](const lesson08_test::Config& c, const Below& below) {
    CAPTURE(c.block_size);
    CAPTURE(c.num_blocks);
    CAPTURE(below.host_blocks);
    CAPTURE(below.file_blocks);
    const lesson08::ServeOptions serve{
        .scheduler = c.scheduler, .hasher = lesson06::narrow_hasher(c.bits), .caching = c.caching};
    lesson11::HostTierOptions tiers{.host_blocks = below.host_blocks,
                                    .file_blocks = below.file_blocks,
                                    .policy = below.policy,
                                    .tiers = below.tiers};
    if (below.file_blocks > 0) tiers.file = folder.path() / std::to_string(++number);
    for (int start = 0; start < 2; ++start) {
      TieredEngine engine(model, {c.block_size, c.num_blocks}, serve, tiers);
      for (int round = 0; round < 2; ++round) {
        const auto result =
            lesson08_test::check_served(engine, requests, wanted, round == 0 ? c.reset_every : 0);
        engine.manager()->check_tiers();
        loaded += result.generated.counters.named("loaded_tokens");
      }
      if (below.file_blocks > 0) from_file += engine.manager()->tier_metrics(1).num_risen;
    }
  };
  using lesson11::LoadPolicy;
  check({16, 40, {}}, {200, 0});
  check({16, 24, {.max_tokens_per_pass = 64, .max_chunk = 16}, 3}, {100, 0});
  check({16, 24, {.max_tokens_per_pass = 64}}, {30, 200});
  check({4, 60, {.max_tokens_per_pass = 32, .max_running = 8}}, {60, 500});
  check({16, 20, {.max_tokens_per_pass = 150}, 64, true, 5}, {10, 40});
  check({16, 20, {.full_sequence_must_fit = false}}, {1, 100});
  check({16, 20, {.max_tokens_per_pass = 150, .chunked_prefill = false}}, {40, 40});
  check({16, 20, {}}, {40, 3, LoadPolicy::kQuicker});
  check({16, 20, {}}, {40, 40, LoadPolicy::kNever});
  check({16, 20, {}}, {40, 40, LoadPolicy::kAlways, {.sink_ahead = 2}});
  check({16, 20, {}}, {40, 40, LoadPolicy::kAlways, {.min_hits_to_sink = 1}});
  check({64, 9, {}, 64, false}, {20, 20});
  check({1, 300, {.max_chunk = 7}, 0}, {2000, 0});
  CHECK(loaded > 100 * num_requests);
  CHECK(from_file > num_requests);
}

}  // namespace lesson11_test
