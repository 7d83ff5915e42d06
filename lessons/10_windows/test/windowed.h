#pragma once

// Whatever is forgotten, the bits are those of lesson 02. For a model on any device.

#include <doctest/doctest.h>

#include <vector>

#include "lessons/08_scheduler/test/served.h"
#include "lessons/10_windows/engine.h"
#include "tests/support/windowed_model.h"

using lesson10::WindowsEngine;

namespace lesson10_test {

using kvtest::check_equal;
using lesson08::Order;

/// Pools, blocks, chunks, preemption, caching, the gate, resets. Small pools hold one request.
inline void check_configurations(kv::Model& model, int num_requests) {
  struct Config {
    int block_size, num_blocks;
    lesson08::SchedulerOptions scheduler;
    int bits = 64;
    bool caching = true;
    int reset_every = 0;  // passes
  };
  const Config configs[] = {
      {16, 0, {}},
      {16, 40, {}},
      {16, 40, {.max_tokens_per_pass = 64, .max_chunk = 16}, 3},
      {16, 40, {.max_tokens_per_pass = 64, .max_chunk = 16, .full_sequence_must_fit = false}},
      {16, 60, {.max_tokens_per_pass = 150, .chunked_prefill = false}, 64, true, 5},
      {4, 110, {.max_tokens_per_pass = 32, .max_running = 8}},
      {1, 420, {.max_tokens_per_pass = 128, .max_chunk = 7}, 64, true, 9},
      {64, 9, {}, 64, false},
      {16, 24, {.max_tokens_per_pass = 16}, 0},
      {256, 6, {.max_tokens_per_pass = 1000, .max_running = 2, .max_chunk = 100}}};
  std::vector<kv::Request> requests = lesson08_test::mixed(num_requests);
  const auto further = kv::samples_of(requests[0], 3);
  requests.insert(requests.begin() + 1, further.begin() + 1, further.end());
  const auto wanted = lesson08_test::flat(model, requests);
  std::vector<lesson08::Arrival> arrivals;
  for (size_t i = 0; i < requests.size(); ++i) {
    arrivals.push_back({.pass = static_cast<int>(i) / 8 * 3, .priority = static_cast<int>(i) % 3});
  }
  int64_t preemptions = 0, hits = 0;
  for (const Config& c : configs) {
    CAPTURE(c.block_size);
    CAPTURE(c.num_blocks);
    CAPTURE(c.scheduler.max_tokens_per_pass);
    for (const Order order : {Order::kFirstCome, Order::kPriority}) {
      lesson08::ServeOptions serve{.scheduler = c.scheduler,
                                   .hasher = lesson06::narrow_hasher(c.bits),
                                   .caching = c.caching};
      serve.scheduler.order = order;
      WindowsEngine engine(model, {c.block_size, c.num_blocks}, serve);
      int pass = 0;
      const auto result = engine.serve(requests, arrivals, {}, [&](const auto&, const auto&) {
        const bool resets = c.reset_every > 0 && ++pass < 5 * c.reset_every;  // and then lets go
        if (resets && pass % c.reset_every == 0) engine.reset_prefix_cache();
        engine.manager()->check();
        return true;
      });
      check_equal(result.generated, wanted);
      preemptions += result.num_preemptions;
      hits += result.generated.counters.named("cache_hit_tokens");
      engine.manager()->check();
      CHECK(engine.manager()->pool().num_used() == 0);
    }
  }
  CHECK(preemptions > num_requests / 2);
  CHECK(hits > 10 * num_requests);
}

/// Padded passes, and tokens that the device chooses.
inline void check_padded(kv::Model& model) {
  std::vector<kv::Request> requests = lesson08_test::mixed(14, 11);
  for (kv::Request& request : requests) request.sampling.temperature = 0;
  const auto wanted = lesson08_test::flat(model, requests);
  for (const int pad : {1, 2, 8}) {
    for (const bool on_device : {false, true}) {
      CAPTURE(pad);
      CAPTURE(on_device);
      WindowsEngine engine(model, {.block_size = 8, .num_blocks = 100},
                           {.choose_on_device = on_device, .pad_decodes_to = pad});
      auto result = engine.generate(requests);
      for (size_t i = 0; on_device && i < requests.size(); ++i) {  // a digest of no logits
        result.completions[i].logits_xxh64 = wanted.completions[i].logits_xxh64;
      }
      check_equal(result, wanted);
    }
  }
}

}  // namespace lesson10_test
