// Slots that the device works out, and a pool that is as large as the memory allows.

#include <doctest/doctest.h>

#include <limits>

#include "cli/pool_sizes.h"
#include "common/error.h"
#include "slots.h"

TEST_CASE("the slots of a prompt, of a decode, and of a chunk") {
  check_three_slots(kv::Device::kCpu);
}

TEST_CASE("a slot may be past 2 to the 31") { check_large_slots(kv::Device::kCpu); }

TEST_CASE("slots from tables on the device are those of the tables on the host") {
  check_slots(kv::Device::kCpu, {0, 1, 2, 3, 7, 20, 64, 300});
}

TEST_CASE("the pool takes its share of the free memory") {
  using lesson08::blocks_for_memory;
  CHECK(blocks_for_memory(1000, 1.0, 100) == 9);  // and the null block
  CHECK(blocks_for_memory(1000, 0.5, 100) == 4);
  CHECK(blocks_for_memory(200, 1.0, 100) == 1);
  CHECK(blocks_for_memory(int64_t{1} << 62, 1.0, 1) == std::numeric_limits<int32_t>::max() - 1);
  CHECK_THROWS_WITH_AS(blocks_for_memory(199, 1.0, 100),
                       doctest::Contains("does not hold one block"), kv::UserError);
  for (const double wrong : {0.0, -1.0, 1.01, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK_THROWS_AS(blocks_for_memory(1000, wrong, 100), kv::UserError);
  }
  const kv::DeviceMemory memory = kv::memory_of(kv::Device::kCpu);
  CHECK(memory.free > 0);
  CHECK(memory.free <= memory.total);
}
