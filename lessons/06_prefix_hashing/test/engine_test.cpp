// Tests of lesson 06's engine: a cached prefix saves rows and changes no bit.

#include "engine.h"

#include <doctest/doctest.h>

#include <vector>

#include "cli/forgery.h"
#include "cli/hashers.h"
#include "hits.h"
#include "lessons/02_flat_cache/engine.h"
#include "tests/support/same_bits.h"
#include "tests/support/shipped_model.h"

namespace {

using kvtest::check_equal;
using kvtest::request_of;
using kvtest::shipped_model;
using kvtest::with_system_prompt;
using lesson06::BlockPool;
using lesson06::PrefixEngine;

kv::GenerateResult flat(std::vector<kv::Request> requests) {
  return lesson02::make_engine(shipped_model(), {})->generate(requests);
}

}  // namespace

TEST_CASE("a prompt that is cached as a whole gives the same bits") {
  for (const int length : {1, 15, 16, 17, 32, 33, 64, 65, 256, 257}) {
    CAPTURE(length);
    const kv::Request request = request_of(length, 6);
    PrefixEngine engine(shipped_model(), {.num_blocks = 40});
    const auto first = engine.generate({&request, 1});
    const auto second = engine.generate({&request, 1});
    CHECK(engine.num_cached_tokens()[0] == (length - 1) / 16 * 16);
    CHECK(second.counters.named("cache_hit_tokens") == (length - 1) / 16 * 16);
    CHECK(first.counters.kv_rows_computed - second.counters.kv_rows_computed ==
          (length - 1) / 16 * 16);
    check_equal(first, flat({request}));
    check_equal(second, first);
    CHECK(engine.manager()->pool().num_used() == 0);
  }
}

TEST_CASE("requests with one system prompt: rows are saved, bits are not touched") {
  for (const int block_size : {1, 4, 16, 64}) {
    CAPTURE(block_size);
    PrefixEngine engine(shipped_model(),
                        {.block_size = block_size, .num_blocks = 4096 / block_size});
    for (int user = 0; user < 4; ++user) {
      CAPTURE(user);
      const kv::Request request = with_system_prompt(130, 5 + user, 1 + user);
      const auto result = engine.generate({&request, 1});
      check_equal(result, flat({request}));
      CHECK(engine.num_cached_tokens()[0] == (user == 0 ? 0 : 130 / block_size * block_size));
    }
  }
}

TEST_CASE("a batch finds what came before it, and not each other") {
  PrefixEngine engine(shipped_model(), {.num_blocks = 64});
  const std::vector<kv::Request> batch{with_system_prompt(64, 3, 1), with_system_prompt(64, 9, 2),
                                       with_system_prompt(64, 1, 3)};
  check_equal(engine.generate(batch), flat(batch));
  CHECK(engine.num_cached_tokens() == std::vector<int>{0, 0, 0});
  check_equal(engine.generate(batch), flat(batch));
  CHECK(engine.num_cached_tokens() == std::vector<int>{64, 64, 64});
}

TEST_CASE("further samples of a prompt wait for the pass that computes it, and find it") {
  std::vector<kv::Request> samples(3, request_of(40, 5));
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i].sampling = {.temperature = 1, .sample_index = static_cast<int>(i)};
  }
  PrefixEngine engine(shipped_model(), {.num_blocks = 64});
  check_equal(engine.generate(samples), flat(samples));
  CHECK(engine.num_cached_tokens() == std::vector<int>{0, 32, 32});
}

TEST_CASE("generated tokens are found, too: a conversation goes on") {
  PrefixEngine engine(shipped_model(), {.num_blocks = 64});
  kv::Request turn = request_of(20, 30);
  const auto first = engine.generate({&turn, 1});
  const std::vector<int32_t>& answer = first.completions[0].tokens;
  turn.prompt.insert(turn.prompt.end(), answer.begin(), answer.end());
  const kv::Request more = request_of(10, 0, 5);
  turn.prompt.insert(turn.prompt.end(), more.prompt.begin(), more.prompt.end());
  const auto second = engine.generate({&turn, 1});
  CHECK(engine.num_cached_tokens()[0] == 48);  // 49 of the 50 tokens were computed
  check_equal(second, flat({turn}));
}

TEST_CASE("the engine's bits are the same under a hash of 0 to 64 bits") {
  std::vector<kv::Request> requests;
  for (int user = 0; user < 5; ++user) requests.push_back(with_system_prompt(40, 3 + user, user));
  for (const char* name : {"0", "3", "8", "xxh64", "sha256"}) {
    CAPTURE(name);
    PrefixEngine engine(shipped_model(), {.num_blocks = 12}, lesson06::hasher_of(name));
    int found = 0;
    for (int round = 0; round < 2; ++round) {
      for (const kv::Request& request : requests) {
        check_equal(engine.generate({&request, 1}), flat({request}));
        found += engine.num_cached_tokens()[0];
      }
    }
    CHECK(found == 9 * 32);
  }
}

TEST_CASE("trusting the hash serves another prompt's K and V") {
  const int vocab = shipped_model().config().vocab_size;
  const auto pair = lesson06::forge_pair(vocab, 32);
  REQUIRE(pair.has_value());
  kv::Request first{
      .prompt = request_of(32, 0).prompt, .max_tokens = 6, .sampling = {}, .stop_token_ids = {}};
  kv::Request second = first;
  first.prompt.insert(first.prompt.end(), pair->first.begin(), pair->first.end());
  second.prompt.insert(second.prompt.end(), pair->second.begin(), pair->second.end());
  first.prompt.push_back(300), second.prompt.push_back(300);
  const auto right = flat({second});
  for (const auto check :
       {lesson06::PrefixIndex::Check::kExact, lesson06::PrefixIndex::Check::kHashOnly}) {
    PrefixEngine engine(shipped_model(), {.block_size = 32, .num_blocks = 16}, {},
                        [check](int num_blocks, int block_size) {
                          return std::make_unique<BlockPool>(num_blocks, block_size, check);
                        });
    engine.generate({&first, 1});
    const auto result = engine.generate({&second, 1});
    const bool exact = check == lesson06::PrefixIndex::Check::kExact;
    CHECK(engine.num_cached_tokens()[0] == (exact ? 32 : 64));
    CHECK((result.completions[0].logits_xxh64 == right.completions[0].logits_xxh64) == exact);
  }
}

TEST_CASE("a callback that throws leaves every block free and what was computed in the cache") {
  PrefixEngine engine(shipped_model(), {.num_blocks = 16});
  const kv::Request request = request_of(40, 10);
  int seen = 0;
  CHECK_THROWS_AS(engine.generate({&request, 1},
                                  [&](size_t, int32_t) -> bool {
                                    if (++seen == 3) throw std::runtime_error("stop");
                                    return true;
                                  }),
                  std::runtime_error);
  CHECK(engine.manager()->pool().num_used() == 0);
  check_equal(engine.generate({&request, 1}), flat({request}));
  CHECK(engine.num_cached_tokens()[0] == 32);
}

TEST_CASE("the blocks of a hit hold the bits that computing again gives") {
  lesson06_test::check_hits(shipped_model());
}

TEST_CASE("compare_blocks: one pair, an element at a time") {
  lesson06_test::check_compare_pair(kv::Device::kCpu);
}

TEST_CASE("compare_blocks counts every element that differs, in K and V of all layers") {
  lesson06_test::check_compare_blocks(kv::Device::kCpu);
}
