// Tests of lesson 03's kernels and engine: bytes where they belong, and the bits of lesson 02.

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/parallel.h"
#include "engine.h"
#include "gather_kv.h"
#include "lessons/02_flat_cache/engine.h"
#include "tests/support/naive_attention.h"
#include "tests/support/same_bits.h"
#include "tests/support/shipped_model.h"
#include "write_kv.h"

namespace {

using kvtest::check_equal;
using kvtest::random_floats;
using kvtest::request_of;
using kvtest::shipped_model;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// One layer of a paged cache on the host.
struct HostCache {
  static constexpr int kKvHeads = 3, kHeadDim = 5;
  static constexpr size_t kWidth = kKvHeads * kHeadDim;

  HostCache(int num_blocks, int block_size, float fill)
      : k(static_cast<size_t>(num_blocks * block_size) * kWidth, fill), v(k) {
    blocks = {.k = k.data(),
              .v = v.data(),
              .num_blocks = num_blocks,
              .block_size = block_size,
              .block_stride = block_size,
              .num_kv_heads = kKvHeads,
              .head_dim = kHeadDim};
  }
  std::vector<float> k, v;  // [num_blocks, block_size, kKvHeads, kHeadDim]
  lesson03::KvBlocks blocks;
};

std::vector<kv::Request> some_requests() {
  return {request_of(4, 20), request_of(6, 7), request_of(300, 3), request_of(1, 1),
          request_of(1, 0)};
}

}  // namespace

TEST_CASE("write_kv then gather_kv gives every row back and touches nothing else") {
  constexpr int kBlocks = 7, kSize = 4;
  constexpr size_t kWidth = HostCache::kWidth;
  std::mt19937_64 rng(1);
  HostCache cache(kBlocks, kSize, -7.0f);
  // Two sequences in permuted blocks, lengths 6 and 9.
  const std::vector<int32_t> tables{5, 0, -1, 3, 6, 1};
  const std::vector<int32_t> lens{6, 9};
  std::vector<int64_t> slots;
  for (size_t seq = 0; seq < 2; ++seq) {
    for (int t = 0; t < lens[seq]; ++t) {
      slots.push_back(tables[seq * 3 + static_cast<size_t>(t / kSize)] * kSize + t % kSize);
    }
  }
  const std::vector<float> k = random_floats(rng, slots.size() * kWidth);
  const std::vector<float> v = random_floats(rng, slots.size() * kWidth);
  lesson03::write_kv_cpu({.k = k.data(),
                          .v = v.data(),
                          .slot_mapping = slots.data(),
                          .num_rows = static_cast<int>(slots.size()),
                          .cache = cache.blocks});
  // The whole cache: written rows where the slots say, the old value everywhere else.
  std::vector<float> wanted_k(cache.k.size(), -7.0f), wanted_v = wanted_k;
  for (size_t row = 0; row < slots.size(); ++row) {
    const auto from = static_cast<std::ptrdiff_t>(row * kWidth);
    const auto to = slots[row] * static_cast<std::ptrdiff_t>(kWidth);
    std::copy_n(k.begin() + from, kWidth, wanted_k.begin() + to);
    std::copy_n(v.begin() + from, kWidth, wanted_v.begin() + to);
  }
  CHECK(cache.k == wanted_k);
  CHECK(cache.v == wanted_v);

  const std::vector<int64_t> out_begin{9, 0};  // in the other order
  std::vector<float> k_out(15 * kWidth, kNaN), v_out(15 * kWidth, kNaN);
  lesson03::gather_kv_cpu({.cache = cache.blocks,
                           .block_tables = tables.data(),
                           .seq_len = lens.data(),
                           .out_begin = out_begin.data(),
                           .max_blocks_per_seq = 3,
                           .num_seqs = 2,
                           .max_seq_len = 9,
                           .k_out = k_out.data(),
                           .v_out = v_out.data()});
  const auto rows_of = [&](const std::vector<float>& all, size_t begin, size_t n) {
    const auto at = all.begin() + static_cast<std::ptrdiff_t>(begin * kWidth);
    return std::vector<float>(at, at + static_cast<std::ptrdiff_t>(n * kWidth));
  };
  CHECK(rows_of(k_out, 9, 6) == rows_of(k, 0, 6));
  CHECK(rows_of(v_out, 9, 6) == rows_of(v, 0, 6));
  CHECK(rows_of(k_out, 0, 9) == rows_of(k, 6, 9));
  CHECK(rows_of(v_out, 0, 9) == rows_of(v, 6, 9));
}

TEST_CASE("slot -1 writes nothing: the whole cache is compared") {
  std::mt19937_64 rng(2);
  HostCache cache(3, 4, 0.5f);
  const std::vector<float> before = cache.k;
  const std::vector<float> rows = random_floats(rng, 2 * HostCache::kWidth);
  const std::vector<int64_t> slots{lesson03::kNoSlot, lesson03::kNoSlot};
  lesson03::write_kv_cpu({.k = rows.data(),
                          .v = rows.data(),
                          .slot_mapping = slots.data(),
                          .num_rows = 2,
                          .cache = cache.blocks});
  CHECK(cache.k == before);
  CHECK(cache.v == before);
}

#ifdef NDEBUG
TEST_CASE("a slot out of range writes nothing") {
  std::mt19937_64 rng(3);
  HostCache cache(3, 4, 0.5f);
  const std::vector<float> before = cache.k;
  const std::vector<float> rows = random_floats(rng, 3 * HostCache::kWidth);
  const std::vector<int64_t> slots{12, -2, int64_t{1} << 40};
  lesson03::write_kv_cpu({.k = rows.data(),
                          .v = rows.data(),
                          .slot_mapping = slots.data(),
                          .num_rows = 3,
                          .cache = cache.blocks});
  CHECK(cache.k == before);
  CHECK(cache.v == before);
}
#else
TEST_CASE("a slot out of range is rejected in a debug build") {
  for (const int64_t slot : {int64_t{12}, int64_t{-2}, int64_t{1} << 40}) {
    CAPTURE(slot);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      std::signal(SIGABRT, SIG_DFL);
      kv::set_num_threads(1);
      HostCache cache(3, 4, 0.5f);
      const std::vector<float> rows(HostCache::kWidth, 1.0f);
      lesson03::write_kv_cpu({.k = rows.data(),
                              .v = rows.data(),
                              .slot_mapping = &slot,
                              .num_rows = 1,
                              .cache = cache.blocks});
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
  }
}
#endif

TEST_CASE("the engine gives lesson 02's bits for any block size") {
  const auto requests = some_requests();
  const auto flat = lesson02::make_engine(shipped_model(), {})->generate(requests);
  for (const int block_size : {1, 2, 16, 64, 256}) {
    CAPTURE(block_size);
    const auto engine = lesson03::make_engine(shipped_model(), {.block_size = block_size});
    check_equal(engine->generate(requests), flat);
    check_equal(engine->generate(requests), flat);  // blocks come back in another order
  }
}

TEST_CASE("what unused slots hold leaves no trace") {
  const auto requests = some_requests();
  const auto flat = lesson02::make_engine(shipped_model(), {})->generate(requests);
  for (const int byte : {0xFF, 0x7F, 0x00}) {  // NaN, huge, zero
    const auto engine = lesson03::make_engine(shipped_model(), {});
    engine->generate(requests);
    dynamic_cast<lesson03::PagedEngine&>(*engine).cache()->fill(byte, shipped_model().stream());
    check_equal(engine->generate(requests), flat);
  }
}

TEST_CASE("blocks are taken as tokens come and all are free at the end") {
  const auto engine = lesson03::make_engine(shipped_model(), {.block_size = 4, .num_blocks = 64});
  auto& paged = dynamic_cast<lesson03::PagedEngine&>(*engine);
  const std::vector<kv::Request> requests{request_of(4, 9)};
  const auto prompt = static_cast<int>(requests[0].prompt.size());
  int generated = 0;
  const auto result = engine->generate(requests, [&](size_t, int32_t) {
    // The token has just been drawn: it is known, but has no slot yet.
    const int tokens = prompt + generated++;
    CHECK(paged.manager()->table(paged.sequence_of(0)).num_tokens() == tokens);
    CHECK(paged.manager()->pool().num_used() == (tokens + 3) / 4);
    return true;
  });
  CHECK(generated == 9);
  CHECK(paged.manager()->pool().num_used() == 0);
  const int64_t blocks = (prompt + 8 + 3) / 4;
  CHECK(result.counters.named("blocks_in_use") == blocks);
  CHECK(result.counters.kv_bytes_reserved == blocks * paged.cache()->bytes_per_block());
  CHECK(result.counters.kv_bytes_used == (prompt + 8) * paged.cache()->bytes_per_token());
  CHECK(result.counters.kv_bytes_copied > 0);
}

TEST_CASE("a cancelled request and an exception leave no block behind") {
  const auto engine = lesson03::make_engine(shipped_model(), {});
  auto& paged = dynamic_cast<lesson03::PagedEngine&>(*engine);
  const std::vector<kv::Request> requests{request_of(4, 9), request_of(1, 9)};
  const auto cancelled =
      engine->generate(requests, [](size_t request, int32_t) { return request != 0; });
  CHECK(cancelled.completions[0].finish == kv::FinishReason::kCancelled);
  CHECK(paged.manager()->pool().num_used() == 0);
  CHECK_THROWS_AS(
      engine->generate(requests, [](size_t, int32_t) -> bool { throw std::runtime_error("x"); }),
      std::runtime_error);
  CHECK(paged.manager()->pool().num_used() == 0);
  CHECK(engine->generate(requests).completions[1].tokens == cancelled.completions[1].tokens);
}

TEST_CASE("a request that can never fit is refused with both numbers before anything runs") {
  const std::vector<kv::Request> requests{request_of(4, 100)};
  const int64_t needed = lesson03::blocks_needed(requests, 4);
  const auto engine = lesson03::make_engine(
      shipped_model(), {.block_size = 4, .num_blocks = static_cast<int>(needed) - 1});
  const std::string both = "need " + std::to_string(needed) + " blocks of 4 tokens, the pool has " +
                           std::to_string(needed - 1);
  CHECK_THROWS_WITH_AS(engine->generate(requests), doctest::Contains(both.c_str()), kv::UserError);
  CHECK(lesson03::make_engine(shipped_model(),
                              {.block_size = 4, .num_blocks = static_cast<int>(needed)})
            ->generate(requests)
            .completions.size() == 1);
  for (const int size : {0, -1, 3, 512, std::numeric_limits<int>::min()}) {
    CHECK_THROWS_AS(lesson03::make_engine(shipped_model(), {.block_size = size}), kv::UserError);
  }
}
