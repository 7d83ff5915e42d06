// Tests of lesson 04's kernels on the device kDevice, which the including file names: the CPU in
// attention_test.cpp, CUDA in gpu_test.cpp.

#include "by_eye.h"
#include "common/error.h"
#include "paged_cache_attention.h"
#include "tests/support/small_attention.h"

using namespace lesson04_test;
constexpr Run kFast{kv::Kernel::kFast, kDevice}, kPlain{kv::Kernel::kPlain, kDevice};
#define KERNEL doctest::test_suite("kernel")

TEST_CASE("a query reads the keys of its own table, up to its own token" * KERNEL) {
  for (const int rows : {1, 2, 5}) check_means_by_table(kPlain, rows, 32);
}

TEST_CASE("all elements of a head are read, also of one that is no multiple of a warp" * KERNEL) {
  for (const int head_dim : {64, 80, 128}) check_means_by_table(kPlain, 2, head_dim);
}

TEST_CASE("the key that a query points at takes all the weight" * KERNEL) {
  kvtest::check_pointing(kPlain.attend({.block_size = 2}));
}

TEST_CASE("scores far below zero still weigh their keys" * KERNEL) {
  kvtest::check_far_below_zero(kPlain.attend({.block_size = 2}));
}

TEST_CASE("with a window a query sees the last keys alone" * KERNEL) {
  kvtest::check_window(
      [](int window) { return kPlain.attend({.block_size = 2, .window = window}); }, 1);
}

TEST_CASE("keys are added in ascending order" * KERNEL) {
  kvtest::check_order(kPlain.attend({.block_size = 2}));
}

TEST_CASE("neighbouring query heads share K and V" * KERNEL) {
  kvtest::check_heads(kPlain.attend({.block_size = 2}));
}

/// Few tokens, in blocks of 32 and of 4; several rows, heads that share K and V.
TEST_CASE("a few tokens in scattered blocks give the bits of lesson 01" * KERNEL) {
  for (const HeadShape shape : {HeadShape{2, 1, 64}, HeadShape{4, 2, 80}, HeadShape{6, 2, 128}}) {
    const Sequence a(shape, 5, 1), b(shape, 1, 2), c(shape, 40, 3);
    INFO(shape.num_heads, " query heads, ", shape.num_kv_heads, " KV heads of ", shape.head_dim);
    for (const int rows : {1, 3}) {
      const std::vector<Part> parts{{&a, rows}, {&b, 1}, {&c, rows}};
      CAPTURE(rows);
      const Outputs want = wanted(kPlain, shape, parts);
      check_bits(kPlain.attend({.block_size = 32})(shape, parts), want);
      INFO("in blocks of 4 past 2^31 elements");
      check_bits(kPlain.attend({.block_size = 4, .first_block = 9'000'000})(shape, parts), want);
    }
  }
}

/// The fast kernel: every context, grouping and head_dim in one decode step.
TEST_CASE("any context, grouping of heads, head_dim and block size gives the bits of lesson 01" *
          doctest::test_suite("sweep")) {
  for (const HeadShape shape :
       {HeadShape{8, 8, 128}, HeadShape{16, 8, 128}, HeadShape{16, 4, 64}, HeadShape{16, 2, 80},
        HeadShape{6, 2, 96}, HeadShape{8, 2, 32}, HeadShape{12, 1, 128}}) {
    CAPTURE(shape.num_heads);
    CAPTURE(shape.head_dim);
    const std::vector<Sequence> sequences =
        kvtest::sequences_of(shape, {1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 256, 257, 700});
    const std::vector<Part> parts = kvtest::last_tokens_of(sequences, 1);
    const Outputs want = wanted(kFast, shape, parts);
    for (const Run& run : runs_on(kDevice)) {
      if (run.kernel == kv::Kernel::kPlain) continue;
      for (const int block_size : {1, 16, 64, 256}) {
        CAPTURE(run.seq_len_bound);
        CAPTURE(block_size);
        check_bits(run.attend({.block_size = block_size})(shape, parts), want);
      }
    }
  }
}

TEST_CASE("what unused slots hold, where blocks are and how large they are leaves no trace") {
  const HeadShape shape{4, 2, 128};
  const Sequence a(shape, 259, 1), b(shape, 33, 2), c(shape, 64, 3), d(shape, 1, 4);
  for (const Run& run : runs_on(kDevice)) {
    for (const auto& parts : {std::vector<Part>{{&a, 1}, {&b, 1}, {&c, 1}, {&d, 1}},
                              std::vector<Part>{{&c, 7}, {&a, 40}, {&b, 1}}}) {
      const Outputs want = wanted(run, shape, parts);
      for (const Blocks& blocks : all_layouts()) {
        CAPTURE(blocks.block_size);
        CAPTURE(blocks.guards);
        CAPTURE(blocks.unused.bits);
        CAPTURE(blocks.first_block);
        check_bits(run.attend(blocks)(shape, parts), want);
      }
    }
  }
}

TEST_CASE("the plain kernel is close to double precision and to the fast one" *
          doctest::test_suite("sweep")) {
  kvtest::check_plain_attention(kPlain.attend(), kFast.attend(), kDevice, 3);
}

TEST_CASE("two sequences may read one block" * KERNEL) { check_shared_blocks(kPlain); }

TEST_CASE("two sequences may read one block, with the fast kernels") {
  for (const Run& run : runs_on(kDevice)) check_shared_blocks(run);
}

TEST_CASE("a block size that is no power of two up to 256 is refused by name") {
  const HeadShape shape{4, 2, 64};
  const Sequence s(shape, 3, 61);
  for (const Run& run : runs_on(kDevice)) {
    Pass pass(shape, {{&s, 1}}, {}, run.device);
    for (const int size : {0, -1, 3, 12, 257, 512, INT32_MIN}) {
      pass.args.cache.block_size = size;
      const std::string found = "block size " + std::to_string(size);
      CHECK_THROWS_WITH_AS(pass.run(op_of(run.kernel)), doctest::Contains(found.c_str()),
                           std::invalid_argument);
    }
  }
}

/// Sequences that fill their last block, in a debug pool. A kernel that keeps to the blocks gives
/// the bits that it gives without guards; off by one row of K or V, it gives NaN.
TEST_CASE("in a debug pool the guards tell a kernel that is off by one row") {
  const HeadShape shape{4, 2, 64};
  for (const Run& run : runs_on(kDevice)) {
    for (const int block_size : {1, 16, 64}) {
      const Sequence a(shape, 320, 1), b(shape, 2 * block_size, 2);
      for (const int rows : {1, 40}) {
        const std::vector<Part> parts{{&a, rows}, {&b, 1}};
        const auto attend = [&](bool guards, Off off) {
          return run.attend({.block_size = block_size, .guards = guards, .off = off})(shape, parts);
        };
        const Outputs want = attend(false, {0, 0});
        for (const Off off : lesson03_test::kOffByOne) {
          CAPTURE(block_size);
          CAPTURE(rows);
          CAPTURE(off.k);
          CAPTURE(off.v);
          const Outputs got = attend(true, off);
          if (off.right()) {
            check_bits(got, want);
          } else {
            for (const auto& part : got) CHECK(std::isnan(part.back()));
          }
        }
      }
    }
  }
}

TEST_CASE("a model in a debug pool: the same logits, and no guard is touched") {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kDevice);
  lesson03_test::check_model_in_debug_pool<lesson04::PagedCacheAttention>(model);
}
