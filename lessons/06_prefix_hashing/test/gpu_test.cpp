// Lesson 06 on a GPU. Chunks that start after a cached prefix give the bits of lesson 02. The
// blocks of a hit hold the bits that computing again gives.

#include <doctest/doctest.h>

#include "engine.h"
#include "hits.h"
#include "lessons/02_flat_cache/engine.h"
#include "tests/support/same_bits.h"
#include "tests/support/shipped_model.h"

namespace {

using kvtest::with_system_prompt;

kv::Model& model() { return kvtest::shipped_model<kv::Device::kCuda>(); }

}  // namespace

TEST_CASE("the blocks of a hit hold the bits that computing again gives") {
  lesson06_test::check_hits(model());
}

TEST_CASE("compare_blocks: one pair, an element at a time" * doctest::test_suite("kernel")) {
  lesson06_test::check_compare_pair(kv::Device::kCuda);
}

TEST_CASE("compare_blocks counts every element that differs, in K and V of all layers" *
          doctest::test_suite("kernel")) {
  lesson06_test::check_compare_blocks(kv::Device::kCuda);
}

TEST_CASE("cached prefixes change no bit on CUDA, in any block size" *
          doctest::test_suite("sweep")) {
  for (const int block_size : {1, 16, 64}) {
    CAPTURE(block_size);
    lesson06::PrefixEngine engine(model(),
                                  {.block_size = block_size, .num_blocks = 512 / block_size});
    for (const int own : {1, 3, 40, 1}) {
      CAPTURE(own);
      const kv::Request request = with_system_prompt(130, own, own, 12);
      kvtest::check_equal(engine.generate({&request, 1}),
                          lesson02::make_engine(model(), {})->generate({&request, 1}));
    }
    CHECK(engine.num_cached_tokens()[0] >= 128);
  }
}
