// Tests of lesson 07's engine: what is found, revived, evicted and computed again changes no bit.

#include "engine.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "lessons/02_flat_cache/engine.h"
#include "lessons/06_prefix_hashing/program/hashers.h"
#include "poison_blocks.h"
#include "tests/support/same_bits.h"
#include "tests/support/shipped_model.h"

namespace {

using kvtest::check_equal;
using kvtest::request_of;
using kvtest::shipped_model;
using kvtest::with_system_prompt;
using lesson07::CachingEngine;
using lesson07::ExtraKey;
using lesson07::ExtraKeys;

kv::GenerateResult flat(std::vector<kv::Request> requests) {
  return lesson02::make_engine(shipped_model(), {})->generate(requests);
}

}  // namespace

TEST_CASE(
    "found, revived, evicted, computed again: the bits of lesson 02, and no row of NaN is read") {
  for (const int hash_bits : {64, 3, 0}) {
    for (const int num_blocks : {8, 12, 64}) {
      CAPTURE(hash_bits);
      CAPTURE(num_blocks);
      CachingEngine engine(shipped_model(), {.block_size = 8, .num_blocks = num_blocks},
                           {.hasher = lesson06::narrow_hasher(hash_bits), .poison = true});
      for (int i = 0; i < 12; ++i) {
        CAPTURE(i);
        const kv::Request request = with_system_prompt(24, 5 + i % 3, i % 4);
        check_equal(engine.generate({&request, 1}), flat({request}));
        engine.manager()->check();
      }
      CHECK(engine.pool()->num_used() == 0);
    }
  }
}

TEST_CASE("a larger pool finds more") {
  std::vector<int64_t> found;
  for (const int num_blocks : {10, 14, 200}) {
    CachingEngine engine(shipped_model(), {.block_size = 4, .num_blocks = num_blocks});
    found.push_back(0);
    for (int i = 0; i < 15; ++i) {
      const kv::Request request = with_system_prompt(20, 6, i % 5, 4);
      found.back() += engine.generate({&request, 1}).counters.named("cache_hit_tokens");
    }
  }
  CHECK(found[0] <= found[1]);
  CHECK(found[1] < found[2]);
}

TEST_CASE("a batch: each request finds what came before it, whatever its length") {
  CachingEngine engine(shipped_model(), {.num_blocks = 64}, {.poison = true});
  const std::vector<kv::Request> batch{with_system_prompt(64, 3, 1), with_system_prompt(64, 9, 2),
                                       request_of(1, 3), with_system_prompt(64, 1, 3, 0)};
  check_equal(engine.generate(batch), flat(batch));
  CHECK(engine.num_cached_tokens() == std::vector<int>{0, 0, 0, 0});
  check_equal(engine.generate(batch), flat(batch));
  CHECK(engine.num_cached_tokens() == std::vector<int>{64, 64, 0, 0});
}

TEST_CASE("requests with other salts do not meet, and have the same bits") {
  CachingEngine engine(shipped_model(), {.num_blocks = 64});
  const kv::Request request = request_of(40, 5);
  const std::vector<ExtraKeys> a{{{ExtraKey::Kind::kSalt, "a"}}}, b{{{ExtraKey::Kind::kSalt, "b"}}};
  const auto first = engine.generate({&request, 1}, a, {});
  const auto second = engine.generate({&request, 1}, b, {});
  CHECK(engine.num_cached_tokens()[0] == 0);
  const auto third = engine.generate({&request, 1}, a, {});
  CHECK(engine.num_cached_tokens()[0] == 32);
  check_equal(first, second);
  check_equal(first, third);
  check_equal(first, flat({request}));
}

TEST_CASE("a reset between requests forgets, one during a request is refused") {
  CachingEngine engine(shipped_model(), {.num_blocks = 64});
  const kv::Request request = request_of(40, 5);
  bool refused = false;
  engine.generate({&request, 1}, [&](size_t, int32_t) {
    refused = !engine.pool()->reset_prefix_cache();
    return true;
  });
  CHECK(refused);
  engine.generate({&request, 1});
  CHECK(engine.num_cached_tokens()[0] == 32);
  CHECK(engine.pool()->reset_prefix_cache());
  check_equal(engine.generate({&request, 1}), flat({request}));
  CHECK(engine.num_cached_tokens()[0] == 0);
}

TEST_CASE("poison fills K and V of the named blocks and nothing else") {
  const kv::Stream stream(kv::Device::kCpu);
  kv::ModelConfig config;
  config.num_layers = 3, config.num_heads = config.num_kv_heads = 2, config.head_dim = 5;
  lesson03::PagedKvCache cache(config, stream, 5, 3);
  cache.fill(0, stream);
  const std::vector<int32_t> ids{4, 1};
  lesson07::poison_blocks({.cache = &cache, .block_ids = ids}, stream);
  for (int layer = 0; layer < 3; ++layer) {
    for (int32_t id = 0; id < 5; ++id) {
      for (const void* at : {cache.block(layer, id).k, cache.block(layer, id).v}) {
        for (int i = 0; i < 3 * 2 * 5; ++i) {
          CHECK(std::isnan(static_cast<const float*>(at)[i]) == (id == 4 || id == 1));
        }
      }
    }
  }
  const std::vector<int32_t> wrong{0, 5};
  CHECK_THROWS_WITH_AS(lesson07::poison_blocks({.cache = &cache, .block_ids = wrong}, stream),
                       doctest::Contains("no block 5"), std::out_of_range);
  CHECK(static_cast<const float*>(cache.block(0, 0).k)[0] == 0);
}

TEST_CASE("poison makes a stale read visible") {
  // A block that is read under a name it has lost: its rows are NaN, and so are the logits.
  kv::Model& model = shipped_model();
  lesson03::PagedKvCache cache(model.config(), model.stream(), 4, 16);
  cache.fill(0, model.stream());
  lesson04::PagedCacheAttention attention(model.config(), cache);
  lesson03::BlockTable table(16);
  const std::vector<int32_t> ids{2, 1};
  table.extend(20, ids);
  const std::vector<int32_t> stale{2};
  lesson07::poison_blocks({.cache = &cache, .block_ids = stale}, model.stream());
  std::vector<int32_t> tokens(20);
  for (int32_t i = 0; i < 20; ++i) tokens[static_cast<size_t>(i)] = 284 + i;
  attention.set_tables({&table});
  kv::PassRows rows;
  rows.add(0, tokens, 16);  // tokens 0 to 15 are taken as there
  const auto logits = model.forward(rows, attention);
  CHECK(std::isnan(logits[0]));
}

TEST_CASE("requests that can never fit are refused before anything is computed") {
  CachingEngine engine(shipped_model(), {.num_blocks = 3});
  const kv::Request large = request_of(40, 20);
  CHECK_THROWS_WITH_AS(engine.generate({&large, 1}), doctest::Contains("need 4 blocks"),
                       kv::UserError);
  CHECK_THROWS_AS(CachingEngine(shipped_model(), {.block_size = 24}), kv::UserError);
}
