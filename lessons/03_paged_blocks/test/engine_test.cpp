// Tests of lesson 03's kernels and engine: bytes where they belong, and the bits of lesson 02.

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/parallel.h"
#include "engine.h"
#include "lessons/02_flat_cache/engine.h"
#include "paged_kv_cache.h"
#include "tests/support/same_bits.h"
#include "tests/support/shipped_model.h"

constexpr auto kDevice = kv::Device::kCpu;
#include "kernel_cases.h"

namespace {

using kvtest::check_equal;
using kvtest::request_of;
using kvtest::shipped_model;
using kvtest::some_requests;

}  // namespace

TEST_CASE("a full table is read to its end, and not beyond") {
  // The table ends where a page does, and the next page cannot be read.
  const size_t page = sysconf(_SC_PAGESIZE);
  void* const memory =
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  REQUIRE(mprotect(static_cast<char*>(memory) + page, page, PROT_NONE) == 0);
  const auto table = reinterpret_cast<int32_t*>(static_cast<char*>(memory) + page) - 2;
  table[0] = 1, table[1] = 0;
  const kv::Stream stream(kv::Device::kCpu);
  lesson03::PagedKvCache pool = blocks_of_two(2, 1, 8, stream);
  number_slots(pool.layer(0), stream);
  const Gather gather(pool.layer(0), {1, 0}, {4}, {0}, stream, table);
  gather.start(stream);
  INFO("slot s holds s, the table is 1 0, a block has two slots, and there are 4 tokens");
  CHECK(drawn(words_of(gather.k, stream), pool.layer(0), 99, stream) == "2 3 0 1");
  munmap(memory, 2 * page);
}

TEST_CASE("a row that begins past 2^31 elements is written") {
  // Of 2^15 + 1 rows of 2^16 elements only the last has memory, and a slot.
  constexpr int kRows = (1 << 15) + 1;
  const kv::Stream stream(kv::Device::kCpu);
  lesson03::PagedKvCache pool(kvtest::shape(1, 512, 128), stream, 1, 1);
  const lesson03::KvBlocks cache = pool.layer(0);
  const auto row = kvtest::upload(numbered({10}, cache, stream), stream);
  const void* const rows =
      kvtest::without_first(row.data(), (kRows - 1) * static_cast<int64_t>(row.bytes()));
  std::vector<int64_t> slots(kRows, lesson03::kNoSlot);
  slots.back() = 0;
  lesson03::write_kv(
      {.k = rows, .v = rows, .slot_mapping = slots.data(), .num_rows = kRows, .cache = cache},
      stream);
  for (const void* const held : {cache.k, cache.v}) {
    const auto words = kvtest::download<uint16_t>(held, row.bytes() / 2, stream);
    CHECK(drawn(words, cache, 1, stream) == "10");
  }
}

TEST_CASE("a model in a debug pool: the same logits, and no guard is touched") {
  check_model_in_debug_pool<lesson03::GatheredAttention>(shipped_model());
}

#ifndef NDEBUG
TEST_CASE("a slot out of range is rejected in a debug build") {
  for (const int64_t slot : {int64_t{12}, int64_t{-2}, int64_t{1} << 40}) {
    CAPTURE(slot);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      std::signal(SIGABRT, SIG_DFL);
      kv::set_num_threads(1);
      const kv::Stream stream(kv::Device::kCpu);
      lesson03::PagedKvCache cache(kvtest::shape(1, 3, 8), stream, 3, 4);
      const Words row(48);
      write_rows(cache.layer(0), row, row, {slot}, stream);
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
    lesson03::fill_blocks(*dynamic_cast<lesson03::PagedEngine&>(*engine).cache(), byte,
                          shipped_model().stream());
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
    CHECK(paged.manager()->table(0).num_tokens() == tokens);
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
