#pragma once

// Checks that the bits are those of lesson 02, whatever the scheduler does. For any device.

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "lessons/02_flat_cache/engine.h"
#include "lessons/06_prefix_hashing/cli/hashers.h"
#include "lessons/08_scheduler/engine.h"
#include "tests/support/same_bits.h"
#include "tests/support/shipped_model.h"

namespace lesson08_test {

using kv::Arrival;
using kvtest::check_equal;
using lesson08::Order;
using lesson08::ServingEngine;

/// Requests of many lengths, half of them after one system prompt.
inline std::vector<kv::Request> mixed(int count, int seed = 1) {
  std::mt19937 rng(static_cast<unsigned>(seed));
  std::vector<kv::Request> requests;
  for (int i = 0; i < count; ++i) {
    const int shared = rng() % 2 == 0 ? 40 : 0;
    const auto max_tokens = 1 + static_cast<int>(rng() % 20);
    const auto own = 1 + static_cast<int>(rng() % 60);
    kv::Request request = kvtest::with_system_prompt(shared, own, i + 1, max_tokens);
    request.sampling.temperature = i % 3 == 0 ? 1.0f : 0.0f;
    request.sampling.seed = static_cast<uint64_t>(i);
    requests.push_back(std::move(request));
  }
  return requests;
}

/// Texts of num_tokens tokens, of one more, and so on.
inline std::vector<kv::Request> texts(int num_tokens = 50, int count = 8, int max_tokens = 12) {
  std::vector<kv::Request> requests;
  for (int i = 0; i < count; ++i) {
    requests.push_back(kvtest::request_of(num_tokens + i, max_tokens, i));
  }
  return requests;
}

inline kv::GenerateResult flat(kv::Model& model, std::span<const kv::Request> requests) {
  return lesson02::make_engine(model, {})->generate(requests);
}

/// Eight requests every third pass, of three priorities.
inline std::vector<Arrival> waves(size_t count) {
  std::vector<Arrival> arrivals;
  for (int i = 0; i < static_cast<int>(count); ++i) {
    arrivals.push_back({.pass = i / 8 * 3, .priority = i % 3});
  }
  return arrivals;
}

/// Serves the requests in waves, and empties the cache every `reset_every` passes at first. Checks
/// the bits, the books before each pass, and that every block is free in the end.
template <class Engine>
kv::ServeResult check_served(Engine& engine, std::span<const kv::Request> requests,
                             const kv::GenerateResult& wanted, int reset_every) {
  int pass = 0;
  auto result = engine.serve(requests, waves(requests.size()), {}, [&](const auto&, const auto&) {
    const bool resets = reset_every > 0 && ++pass < 5 * reset_every;  // and no more after that
    if (resets && pass % reset_every == 0) engine.reset_prefix_cache();
    engine.manager()->check();
    return true;
  });
  check_equal(result.generated, wanted);
  engine.manager()->check();
  CHECK(engine.manager()->pool().num_used() == 0);
  return result;
}

/// Checks that after a callback has thrown, at any token, every block is free and the next call is
/// right.
template <class Engine>
void check_throwing_callbacks(Engine& engine, std::span<const kv::Request> requests,
                              const kv::GenerateResult& wanted, int most) {
  for (int at = 1; at < most; at += 3) {
    int seen = 0;
    const auto throws = [&](size_t, int32_t) -> bool {
      if (++seen == at) throw std::runtime_error("stop");
      return true;
    };
    CHECK_THROWS_AS(engine.generate(requests, throws), std::runtime_error);
    engine.manager()->check();
    CHECK(engine.manager()->pool().num_used() == 0);
  }
  check_equal(engine.generate(requests), wanted);
}

/// A way to serve.
struct Config {
  int block_size, num_blocks;
  lesson08::SchedulerOptions scheduler;
  int bits = 64;  // of the hash
  bool caching = true;
  int reset_every = 0;  // passes
};

/// Checks that each configuration gives the bits of a flat cache, and that all together preempt and
/// find prefixes.
template <class Engine>
void check_configurations(kv::Model& model, std::span<const Config> configs,
                          std::span<const kv::Request> requests) {
  const auto wanted = flat(model, requests);
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
      Engine engine(model, {c.block_size, c.num_blocks}, serve);
      const auto result = check_served(engine, requests, wanted, c.reset_every);
      preemptions += result.num_preemptions;
      hits += result.generated.counters.named("cache_hit_tokens");
    }
  }
  CHECK(preemptions > std::ssize(requests) / 2);
  CHECK(hits > 10 * std::ssize(requests));
}

/// Pools, blocks, chunks, preemption, caching, the gate, resets.
inline void check_configurations(kv::Model& model, int num_requests) {
  const Config configs[] = {
      {16, 0, {}},
      {16, 24, {}},
      {16, 24, {.max_tokens_per_pass = 64, .max_chunk = 16}, 3},
      {16, 24, {.max_tokens_per_pass = 64, .max_chunk = 16, .full_sequence_must_fit = false}},
      {16, 24, {.max_tokens_per_pass = 150, .chunked_prefill = false}, 64, true, 5},
      {4, 48, {.max_tokens_per_pass = 32, .max_running = 8}},
      {1, 160, {.max_tokens_per_pass = 128, .max_chunk = 7}, 64, true, 9},
      {64, 5, {}, 64, false},
      {16, 9, {.max_tokens_per_pass = 16}, 0},
      {256, 3, {.max_tokens_per_pass = 1000, .max_running = 2, .max_chunk = 100}}};
  check_configurations<ServingEngine>(model, configs, mixed(num_requests));
}

/// Checks padded passes, and tokens that the device chooses.
template <class Engine = ServingEngine>
void check_padded(kv::Model& model, int num_blocks = 40) {
  std::vector<kv::Request> requests = mixed(14, 11);
  for (kv::Request& request : requests) request.sampling.temperature = 0;
  const auto wanted = flat(model, requests);
  int64_t rows_without_padding = 0;
  for (const int pad : {1, 2, 8}) {
    for (const bool on_device : {false, true}) {
      CAPTURE(pad);
      CAPTURE(on_device);
      Engine engine(model, {.block_size = 8, .num_blocks = num_blocks},
                    {.choose_on_device = on_device, .pad_decodes_to = pad});
      auto result = engine.serve(requests, {});
      for (size_t i = 0; on_device && i < requests.size(); ++i) {  // a digest of no logits
        result.generated.completions[i].logits_xxh64 = wanted.completions[i].logits_xxh64;
      }
      check_equal(result.generated, wanted);
      // Padding is not counted.
      if (pad == 1) rows_without_padding = result.generated.counters.kv_rows_computed;
      CHECK(result.generated.counters.kv_rows_computed == rows_without_padding);
    }
  }
}

/// Checks that on a GPU an engine that has served before replays every pass of decodes as a graph.
template <class Engine>
void check_replays(Engine& engine, const kv::Model& model) {
  std::vector<kv::Request> requests;
  for (int i = 0; i < 21; ++i) requests.push_back(kvtest::request_of(3 + i * 5, 1 + i * 7 % 40, i));
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    const int64_t replays = model.graph_replays();
    int64_t decodes = 0;
    engine.reset_prefix_cache();
    engine.serve(requests, {}, {}, [&](const auto&, const lesson08::SchedulerOutput& output) {
      decodes += std::ranges::all_of(output.chunks, [](auto& c) { return c.num_tokens == 1; });
      return true;
    });
    CHECK(decodes > 30);
    // The first time a shape comes it runs as it is; the second time it is captured.
    if (round == 2) CHECK(model.graph_replays() - replays == decodes);
  }
}

}  // namespace lesson08_test
