// Lesson 07 on a GPU: poison, revival and eviction change no bit.

#include <doctest/doctest.h>

#include "engine.h"
#include "lessons/02_flat_cache/engine.h"
#include "poison.h"
#include "poisoned_pool.h"
#include "tests/support/same_bits.h"

TEST_CASE("poison fills K and V of the named blocks in all layers, and nothing else" *
          doctest::test_suite("kernel")) {
  lesson07_test::check_poison({96, 96}, kv::Stream(kv::Device::kCuda));
}

TEST_CASE("poison fills blocks that are larger than a CTA, and those that no CTA divides" *
          doctest::test_suite("kernel")) {
  for (const int64_t bytes : {60, 768, 1152}) {
    CAPTURE(bytes);
    lesson07_test::check_poison({bytes, bytes}, kv::Stream(kv::Device::kCuda));
  }
}

TEST_CASE("poison fills regions of different sizes" * doctest::test_suite("kernel")) {
  for (const int64_t bytes : {30, 576}) {
    CAPTURE(bytes);
    lesson07_test::check_poison({bytes, bytes, 16}, kv::Stream(kv::Device::kCuda));
  }
}

TEST_CASE("poison fills a block past 2^31 bytes of K and of V") {
  constexpr int kBlocks = 4'200;  // K and V of a block have 512 KiB each
  const kv::Stream stream(kv::Device::kCuda);
  const lesson05_test::BlockMemory memory(1, kBlocks, {512 << 10, 512 << 10}, stream);
  kv::DeviceBuffer scratch;
  const std::vector<int32_t> ids{kBlocks - 1};
  lesson07::poison_blocks({.regions = &memory.regions, .block_ids = ids, .scratch = &scratch},
                          stream);
  const auto bytes = lesson05_test::read_block(memory.regions, kBlocks - 1, stream);
  CHECK(std::ranges::count(bytes, 0xFF) == std::ssize(bytes));
}

TEST_CASE("poison on the GPU refuses a block that the cache does not have") {
  lesson07_test::check_poison_refuses(kv::Stream(kv::Device::kCuda));
}

TEST_CASE("found, revived, evicted and computed again on CUDA: the bits of lesson 02") {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCuda);
  lesson07_test::PoisoningEngine engine(model, {.block_size = 8, .num_blocks = 12});
  int64_t found = 0;
  for (int i = 0; i < 10; ++i) {
    CAPTURE(i);
    const kv::Request request = kvtest::with_system_prompt(24, 5 + i % 3, i % 4);
    const auto result = engine.generate(request);
    kvtest::check_equal(result, lesson02::make_engine(model, {})->generate({&request, 1}));
    found += result.counters.named("cache_hit_tokens");
  }
  CHECK(found > 0);
}
