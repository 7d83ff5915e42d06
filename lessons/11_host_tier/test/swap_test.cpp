// Blocks between a cache and the host's memory: both pools are compared, byte for byte.

#include "common/error.h"
#include "swaps.h"

namespace {

using namespace lesson11_test;

const kv::Stream kCpu(kv::Device::kCpu);

}  // namespace

TEST_CASE("swap_blocks: a block of letters is offloaded, another one is loaded") {
  check_swap_of_letters(kCpu);
}

TEST_CASE("swap_blocks moves all layers of K and V, both ways, and touches nothing else") {
  for (const int block_size : {1, 3, 16}) check_swaps_of(2, 5, block_size, kCpu);
}

TEST_CASE("swap_blocks moves regions of different sizes") {
  for (const int block_size : {1, 3, 16}) check_swaps_of(2, 5, block_size, kCpu, true);
  check_round_trip(kCpu, true);
}

TEST_CASE("what was offloaded and overwritten is loaded with its old bits") {
  check_round_trip(kCpu);
}

TEST_CASE("blocks past 2^31 bytes are moved to where they belong") {
  check_swaps_past_2_to_the_31(kCpu);
}

TEST_CASE("swap_blocks refuses what it cannot do before it writes") { check_refusals(kCpu); }

TEST_CASE("batches are numbered, and done in their order") {
  for (const bool scales : {false, true}) check_batches(kCpu, scales);
}

TEST_CASE("a batch is done when start() returns") {
  Pools pools({}, kCpu);
  BlockSwapper swapper(pools.device.regions, pools.host, kCpu);
  for (Job job = 1; job <= 3; ++job) {
    swapper.start(Direction::kLoad, Moves{{0, 0}});
    CHECK(swapper.completed() == job);
  }
}

TEST_CASE("what a block takes is measured on the way up") { check_measured(kCpu); }

TEST_CASE("the host's blocks have the cache's size, and lie one after the other") {
  const Pools pools({}, kCpu);
  CHECK(pools.host.num_ids() == 7);
  CHECK(pools.host.bytes_per_block() == size_t{3} * 2 * 2 * 8 * sizeof(float));
  CHECK(pools.host.block(0).data() == pools.host.data());
  CHECK(pools.host.block(6).data() == pools.host.data() + 6 * pools.host.bytes_per_block());
}

TEST_CASE("more memory than the host has is refused, with the bytes asked for") {
  CHECK_THROWS_WITH_AS(HostBlocks(512 << 20, kv::Device::kCpu, 1 << 20),
                       doctest::Contains("host memory: cannot allocate 562949953421312 bytes"),
                       kv::DeviceError);
}
