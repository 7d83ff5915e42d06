#pragma once

// Many prompts, eight configurations of memory, no differing bit.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "lessons/02_flat_cache/engine.h"
#include "lessons/05_refcount_cow/engine.h"
#include "lessons/06_prefix_hashing/cli/hashers.h"
#include "lessons/08_scheduler/engine.h"
#include "tests/support/shortened.h"

namespace ladder {

/// Lengths, tokens, seeds and answers by chance; two of five begin with one of five texts.
inline std::vector<kv::Request> many_prompts(int count, uint64_t seed) {
  kvtest::Random random(seed);
  const auto add_tokens = [](kvtest::Random& from, int n, std::vector<int32_t>& tokens) {
    for (int i = 0; i < n; ++i) tokens.push_back(256 + from.below(1024));
  };
  std::vector<kv::Request> requests(static_cast<size_t>(count));
  for (kv::Request& request : requests) {
    if (random.below(5) < 2) {
      kvtest::Random shared(1000 + static_cast<uint64_t>(random.below(5)));
      add_tokens(shared, 40, request.prompt);
    }
    add_tokens(random, 1 + random.below(40), request.prompt);
    request.max_tokens = 1 + random.below(8);
    request.sampling.temperature = random.below(3) == 0 ? 1.0f : 0.0f;
    request.sampling.seed = random.next() % 1000;
  }
  return requests;
}

inline void check_prompts(kv::Model& model, int count, uint64_t seed) {
  const std::vector<kv::Request> requests = many_prompts(count, seed);
  const auto wanted = lesson02::make_engine(model, {})->generate(requests).completions;
  int64_t differing = 0, preemptions = 0, hits = 0;
  const auto compare = [&](const kv::Completion& found, size_t i) {
    const bool same =
        found.tokens == wanted[i].tokens && found.logits_xxh64 == wanted[i].logits_xxh64;
    CHECK_MESSAGE(same, "prompt " << i);
    differing += !same;
  };
  struct Configuration {
    std::string name;
    lesson03::PagedOptions blocks;
    lesson08::ServeOptions serve;
  };
  const std::vector<Configuration> configurations{
      {"blocks of 16, room for all",
       {},
       {.scheduler = {.max_tokens_per_pass = 4096, .max_running = 1000}}},
      {"blocks of 1", {.block_size = 1, .num_blocks = 4000}, {}},
      {"blocks of 256", {.block_size = 256, .num_blocks = 20}, {}},
      {"a small pool: preemption", {.block_size = 4, .num_blocks = 26}, {}},
      {"chunks of 7 tokens",
       {.num_blocks = 200},
       {.scheduler = {.max_tokens_per_pass = 64, .max_chunk = 7}}},
      {"no caching, by priority",
       {.num_blocks = 64},
       {.scheduler = {.order = lesson08::Order::kPriority}, .caching = false}},
      {"a hash of 3 bits, padded passes",
       {.block_size = 8, .num_blocks = 64},
       {.hasher = lesson06::narrow_hasher(3), .pad_decodes_to = 8}}};
  for (const Configuration& c : configurations) {
    CAPTURE(c.name);
    lesson08::ServingEngine engine(model, c.blocks, c.serve);
    const auto result = engine.serve(requests, {});
    for (size_t i = 0; i < requests.size(); ++i) compare(result.generated.completions[i], i);
    preemptions += result.num_preemptions;
    hits += result.generated.counters.named("cache_hit_tokens");
    engine.manager()->check();
  }
  const std::string name = "forks of one prompt";
  CAPTURE(name);
  lesson05::SharingEngine forks(model, {.block_size = 4});
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto twins = forks.generate(kv::samples_of(requests[i], 2)).completions;
    compare(twins[0], i);
    if (requests[i].sampling.temperature == 0) compare(twins[1], i);
  }
  CHECK(differing == 0);
  CHECK(preemptions > 0);
  CHECK(hits > count);
  MESSAGE(count << " prompts, " << configurations.size() + 1 << " configurations, " << preemptions
                << " preemptions, " << hits << " tokens found: " << differing << " differ");
}

}  // namespace ladder
