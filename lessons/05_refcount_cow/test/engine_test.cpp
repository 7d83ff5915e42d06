// Tests of lesson 05's engine: sharing changes no bit, and saves what it says.

#include "engine.h"

#include <doctest/doctest.h>

#include <limits>
#include <stdexcept>
#include <vector>

#include "common/error.h"
#include "lessons/02_flat_cache/engine.h"
#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "support.h"
#include "tests/support/same_bits.h"

namespace {

using kvtest::check_equal;
using kvtest::shipped_model;
using lesson05::SharingEngine;
using namespace lesson05_test;

void check_empty(const SharingEngine& engine) {
  REQUIRE(engine.manager() != nullptr);
  engine.manager()->check();
  CHECK(engine.manager()->pool().num_used() == 0);
  CHECK(engine.manager()->pool().num_references() == 0);
  CHECK(engine.manager()->tables().empty());
  CHECK(engine.sequence_of(0) == -1);
}

}  // namespace

TEST_CASE("plain requests have lesson 02's bits for any block size") {
  const auto requests = kvtest::some_requests();
  const auto flat = lesson02::make_engine(shipped_model(), {})->generate(requests);
  for (const int block_size : {1, 16, 256}) {
    const auto engine = lesson05::make_engine(shipped_model(), {.block_size = block_size});
    check_equal(engine->generate(requests), flat);
    check_equal(engine->generate(requests), flat);  // blocks come back in another order
  }
}

TEST_CASE("n samples have the bits of n independent requests") {
  for (const int prompt : {1, 15, 16, 17, 70}) {
    for (const int block_size : {1, 4, 16}) {
      CAPTURE(prompt);
      CAPTURE(block_size);
      const kv::Request request = hot_request(prompt, 20);
      SharingEngine engine(shipped_model(), {.block_size = block_size});
      const auto sampled = sample(engine, request, 4);
      check_empty(engine);
      const auto flat =
          lesson02::make_engine(shipped_model(), {})->generate(kv::samples_of(request, 4));
      check_equal(sampled, flat);
      CHECK(sampled.completions[0].tokens != sampled.completions[1].tokens);
      // The prompt ran once, and n - 1 copies of its half full tail were made.
      CHECK(sampled.counters.kv_rows_computed == prompt + 4 * 19);
      const int64_t copies = prompt % block_size == 0 ? 0 : 3;
      CHECK(engine.manager()->num_copies() == copies);
      CHECK(sampled.counters.kv_bytes_copied == copies * engine.cache()->bytes_per_block());
    }
  }
}

TEST_CASE("what unused slots hold leaves no trace in samples") {
  const kv::Request request = hot_request(21, 15);
  SharingEngine engine(shipped_model(), {});
  const auto clean = sample(engine, request, 4);
  for (const int byte : {0xFF, 0x7F, 0x00}) {  // NaN, huge, zero
    lesson03::fill_blocks(*engine.cache(), byte, shipped_model().stream());
    check_equal(sample(engine, request, 4), clean);
  }
}

TEST_CASE("samples use the blocks that the arithmetic says") {
  SharingEngine engine(shipped_model(), {});
  // 64 tokens and 10 more that go through the model.
  const auto ten = sample(engine, hot_request(64, 11), 4);
  CHECK(ten.counters.named("blocks_in_use") == 8);
  CHECK(ten.counters.named("blocks_shared") == 4);
  CHECK(ten.counters.named("blocks_as_copies") == 20);
  CHECK(ten.counters.kv_bytes_reserved == 8 * engine.cache()->bytes_per_block());
  CHECK(ten.counters.kv_bytes_used == (64 + 4 * 10) * engine.cache()->bytes_per_token());
  const auto twenty = sample(engine, hot_request(64, 21), 4);
  CHECK(twenty.counters.named("blocks_in_use") == 12);
  CHECK(twenty.counters.named("blocks_as_copies") == 24);
}

TEST_CASE("a sample that stops frees its blocks and the others go on") {
  kv::Request request = hot_request(20, 30);
  SharingEngine engine(shipped_model(), {.block_size = 4});
  const auto free_run = sample(engine, request, 4);
  request.stop_token_ids = {free_run.completions[2].tokens[5]};
  size_t drawn = 0;
  const auto stopped = sample(engine, request, 4, [&](size_t sample, int32_t) {
    // Sample 2 stops with its sixth token. From the next pass on three are left.
    if (++drawn > 6 * 4) CHECK(engine.manager()->tables().size() == 3);
    CHECK((sample != 2 || drawn <= 6 * 4));
    return true;
  });
  const auto flat =
      lesson02::make_engine(shipped_model(), {})->generate(kv::samples_of(request, 4));
  check_equal(stopped, flat);
  CHECK(stopped.completions[2].finish == kv::FinishReason::kStop);
  check_empty(engine);
}

TEST_CASE("cancelled samples and exceptions leave the pool empty") {
  const kv::Request request = hot_request(20, 9);
  SharingEngine engine(shipped_model(), {.block_size = 4});
  for (const size_t cancelled : {size_t{0}, size_t{2}}) {
    const auto result =
        sample(engine, request, 3, [&](size_t sample, int32_t) { return sample != cancelled; });
    CHECK(result.completions[cancelled].finish == kv::FinishReason::kCancelled);
    CHECK(result.completions[1].tokens.size() == 9);
    check_empty(engine);
  }
  int calls = 0;
  CHECK_THROWS_AS(sample(engine, request, 3,
                         [&](size_t, int32_t) -> bool {
                           if (++calls == 5) throw std::runtime_error("stop");
                           return true;
                         }),
                  std::runtime_error);
  check_empty(engine);
  const auto throw_at_three = [](std::span<const kv::Beam> beams) -> bool {
    if (beams[0].tokens.size() == 3) throw std::runtime_error("stop");
    return true;
  };
  CHECK_THROWS_AS(engine.beam_search(request, {}, throw_at_three), std::runtime_error);
  check_empty(engine);
}

TEST_CASE("a pool of exactly the needed size is enough and one block less is refused") {
  // 18 tokens in blocks of 4: 4 full ones shared, and of 27 tokens each 7 - 4 blocks of its own.
  const kv::Request request = hot_request(18, 10);
  constexpr int kNeeded = 4 + 3 * 3;
  SharingEngine engine(shipped_model(), {.block_size = 4, .num_blocks = kNeeded});
  CHECK(sample(engine, request, 3).counters.named("blocks_in_use") == kNeeded);
  CHECK_FALSE(engine.beam_search(request, {.num_beams = 3}).beams.empty());
  SharingEngine small(shipped_model(), {.block_size = 4, .num_blocks = kNeeded - 1});
  const char* both = "need 13 blocks of 4 tokens, the pool has 12";
  CHECK_THROWS_WITH_AS(sample(small, request, 3), doctest::Contains(both), kv::UserError);
  CHECK_THROWS_WITH_AS(small.beam_search(request, {.num_beams = 3}), doctest::Contains(both),
                       kv::UserError);
  CHECK_THROWS_AS(sample(small, request, 0), kv::UserError);
  for (const int size : {0, -1, 3, 512, std::numeric_limits<int>::min()}) {
    CHECK_THROWS_AS(SharingEngine(shipped_model(), {.block_size = size}), kv::UserError);
  }
}

TEST_CASE("nothing to generate takes no block") {
  SharingEngine engine(shipped_model(), {});
  const auto result = sample(engine, hot_request(5, 0), 4);
  CHECK(result.completions.size() == 4);
  CHECK(result.counters.passes == 0);
  check_empty(engine);
  CHECK(engine.generate({}).completions.empty());
}
