// Lesson 04's CPU kernels: right, and lesson 01's bits whatever the blocks, the batch, the number
// of queries, the bounds of the lengths and what unused slots hold.

#include "attend.h"
#include "paged_cache_attention.h"
#include "tests/support/shipped_model.h"

using namespace lesson04_test;
constexpr auto kCpu = kv::Device::kCpu;
constexpr Run kFast{kv::Kernel::kFast, kCpu}, kPlain{kv::Kernel::kPlain, kCpu};

TEST_CASE("any context, grouping of heads, head_dim and block size gives the bits of lesson 01") {
  check_contexts_and_shapes(kCpu);
}

TEST_CASE("random shapes and blocks give the bits of lesson 01") {
  std::mt19937_64 rng(404);
  const auto below = [&](int n) { return static_cast<int>(rng() % static_cast<uint64_t>(n)); };
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    const int kv_heads = 1 + below(4);
    const HeadShape shape{kv_heads * (1 + below(5)), kv_heads, 1 + below(140)};
    const Sequence s(shape, 1 + below(600), rng());
    const std::vector<Part> parts{{&s, 1 + below(std::min(s.len, 12))}};
    const Blocks blocks{.block_size = 1 << below(9), .shuffle = rng(), .guard_rows = below(2)};
    check_bits(kFast.attend(blocks)(shape, parts), wanted(kFast, shape, parts));
  }
}

TEST_CASE("a context of zero tokens has no query and touches nothing") {
  const HeadShape shape{4, 2, 40};
  const Sequence empty(shape, 0, 1), full(shape, 20, 2);
  const std::vector<Part> parts{{&empty, 0}, {&full, 1}, {&empty, 0}};
  for (const Run& run : runs_on(kCpu))
    check_bits(run.attend()(shape, parts), wanted(run, shape, parts));
}

TEST_CASE("what unused slots hold, where blocks are and how large they are leaves no trace") {
  for (const Run& run : runs_on(kCpu)) check_all_layouts(run);
}

TEST_CASE("the bits of a query depend on its keys alone") {
  for (const Run& run : runs_on(kCpu)) kvtest::check_bits_of_a_query(run.attend(), /*chunks=*/true);
}

TEST_CASE("the plain kernel is close to double precision and to the fast one") {
  kvtest::check_plain_attention(kPlain.attend(), kFast.attend(), kCpu, 3);
}

TEST_CASE("huge scores neither overflow nor lose the largest") {
  kvtest::check_extreme_scores(kPlain.attend());
}

TEST_CASE("two sequences may read one block") {
  for (const Run& run : runs_on(kCpu)) check_shared_blocks(run);
}

TEST_CASE("a block size that is no power of two up to 256 is refused by name") {
  for (const Run& run : runs_on(kCpu)) check_block_sizes_refused(run);
}

TEST_CASE("in a debug pool the guards tell a kernel that is off by one row") {
  for (const Run& run : runs_on(kCpu)) check_debug_pool(run);
}

TEST_CASE("a model in a debug pool: the same logits, and no guard is touched") {
  lesson03_test::check_model_in_debug_pool<lesson04::PagedCacheAttention>(kvtest::shipped_model());
}
