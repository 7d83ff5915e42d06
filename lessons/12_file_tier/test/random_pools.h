#pragma once

// What random tests of the tiers have in common: how large the pools of a run are, and their
// memory.

#include <fmt/format.h>

#include <string>

#include "lessons/11_host_tier/swap_blocks.h"
#include "lessons/11_host_tier/test/token_bytes.h"
#include "tests/support/shortened.h"

namespace lesson12_test {

/// Chosen at random; half of the runs have a hash of 3 bits.
struct PoolSettings {
  explicit PoolSettings(kvtest::Random random)
      : bits(random.from(0, 1) == 0 ? 64 : 3),
        device(random.from(2, 10)),
        host(random.from(1, 16)),
        block_size(random.from(1, 3)),
        budget(random.from(0, 1) == 0 ? 64 : 5),
        is_threaded(random.from(0, 7) == 0),
        scales(random.from(0, 1) == 0) {}
  std::string text() const {
    return fmt::format("pools of {} and {} blocks of {}{}, {} bits of hash, budget {}{}", device,
                       host, block_size, scales ? " with scales" : "", bits, budget,
                       is_threaded ? ", threads" : "");
  }

  int bits, device, host, block_size, budget;
  bool is_threaded;
  bool scales;  // a third region in each layer
};

struct PoolMemory {
  explicit PoolMemory(const PoolSettings& settings)
      : device(2, settings.device + 1,
               lesson11_test::sizes_of(settings.block_size, settings.scales), stream,
               settings.block_size),
        memory(device.regions.bytes_per_block(), kv::Device::kCpu, settings.host + 1) {}

  kv::Stream stream{kv::Device::kCpu};
  lesson05_test::BlockMemory device;
  lesson11::HostBlocks memory;
};

}  // namespace lesson12_test
