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

TEST_CASE("a few tokens in scattered blocks give the bits of lesson 01" * KERNEL) {
  check_few_tokens(kPlain);
}

TEST_CASE("any context, grouping of heads, head_dim and block size gives the bits of lesson 01" *
          doctest::test_suite("sweep")) {
  check_contexts_and_shapes(kDevice);
}

TEST_CASE("what unused slots hold, where blocks are and how large they are leaves no trace") {
  for (const Run& run : runs_on(kDevice)) check_all_layouts(run);
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
  for (const Run& run : runs_on(kDevice)) check_block_sizes_refused(run);
}

TEST_CASE("in a debug pool the guards tell a kernel that is off by one row") {
  for (const Run& run : runs_on(kDevice)) check_debug_pool(run);
}

TEST_CASE("a model in a debug pool: the same logits, and no guard is touched") {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kDevice);
  lesson03_test::check_model_in_debug_pool<lesson04::PagedCacheAttention>(model);
}
