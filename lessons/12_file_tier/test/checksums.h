#pragma once

// Shared by the tests of checksums on both devices.

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "checksum_blocks.h"
#include "lessons/05_refcount_cow/test/block_memory.h"
#include "lessons/11_host_tier/swap_blocks.h"

namespace lesson12_test {

using lesson12::BlockMove;
using Moves = std::vector<BlockMove>;

/// Checks blocks of random bytes: the checksum on the device is that of the copy in the host, for
/// some of the blocks in any order. The other places stay as they were.
inline void check_checksums(const std::vector<int64_t>& bytes, const kv::Stream& stream,
                            int num_blocks = 9) {
  CAPTURE(bytes[0]);
  constexpr uint64_t kUntouched = 0xABCDEF;
  const lesson05_test::BlockMemory device(3, num_blocks, bytes, stream);
  const lesson12::BlockRegions& regions = device.regions;
  const lesson12::HostBlocks host(regions.bytes_per_block(), stream.device(), num_blocks);
  std::mt19937_64 rng(5);
  for (int32_t id = 0; id < num_blocks; ++id) {
    for (std::byte& byte : host.block(id)) byte = static_cast<std::byte>(rng());
  }
  Moves all;
  for (int32_t id = 0; id < num_blocks; ++id) all.push_back({num_blocks - 1 - id, id});
  lesson11::swap_blocks(
      {.regions = &regions, .host = &host, .direction = lesson11::Direction::kLoad, .moves = all},
      stream);
  const kv::HostBuffer sums(stream.device(), static_cast<size_t>(num_blocks) * sizeof(uint64_t));
  const std::span found(sums.as<uint64_t>(), num_blocks);
  std::ranges::fill(found, kUntouched);
  Moves some = all;
  some.erase(some.begin() + 1);
  std::swap(some.front(), some.back());
  lesson12::checksum_blocks({.regions = &regions, .blocks = some, .checksums = found.data()},
                            stream);
  stream.synchronize();
  CHECK(found[1] == kUntouched);
  for (const BlockMove& move : some) {
    REQUIRE(found[move.host] == lesson12::checksum_of(host.block(move.host)));
  }
}

/// Any byte of a block that changes on the device changes its checksum.
inline void check_damage(const kv::Stream& stream) {
  constexpr int32_t kLast = 1 << 27;  // no int holds its place
  const lesson05_test::BlockMemory device(1, kLast + 1, {64, 64, 16}, stream, 1, kLast);
  const lesson12::BlockRegions& regions = device.regions;
  lesson05_test::write_block(regions, kLast, lesson05_test::Bytes(144, 0x5A), stream);
  const kv::HostBuffer sums(stream.device(), 4 * sizeof(uint64_t));
  const auto sum = [&] {
    const BlockMove move{.device = kLast, .host = 3};
    lesson12::checksum_blocks(
        {.regions = &regions, .blocks = {&move, 1}, .checksums = sums.as<uint64_t>()}, stream);
    stream.synchronize();
    return sums.as<uint64_t>()[3];
  };
  const uint64_t whole = sum();
  for (const lesson05::Region& region : regions.list()) {
    CAPTURE(region.begin);
    std::byte* const last = region.block(kLast) + region.bytes - 1;
    kv::fill_bytes(last, 0x5B, 1, stream);
    CHECK(sum() != whole);
    kv::fill_bytes(last, 0x5A, 1, stream);
  }
  CHECK(sum() == whole);
}

inline void check_refusals(const kv::Stream& stream) {
  const lesson05_test::BlockMemory memory(1, 3, {64, 64}, stream);
  const kv::HostBuffer sums(stream.device(), 64);
  const auto sum = [&](const lesson12::BlockRegions& of, const Moves& blocks) {
    lesson12::checksum_blocks({.regions = &of, .blocks = blocks, .checksums = sums.as<uint64_t>()},
                              stream);
  };
  constexpr uint64_t kUntouched = 0xABCDEF;
  std::ranges::fill(std::span(sums.as<uint64_t>(), 8), kUntouched);
  CHECK_THROWS_WITH_AS(sum(memory.regions, {{1, 1}, {3, 2}}),
                       "checksum_blocks: there is no block 3, the ids end at 3", std::out_of_range);
  CHECK(sums.as<uint64_t>()[1] == kUntouched);  // nothing is summed up before a refusal
  CHECK_THROWS_AS(sum(memory.regions, {{-1, 1}}), std::out_of_range);
  const lesson05_test::BlockMemory odd(1, 3, {8, 4}, stream);
  CHECK_THROWS_AS(sum(odd.regions, {{1, 1}}), std::invalid_argument);
  CHECK_THROWS_AS(sum(odd.regions, {}), std::invalid_argument);  // whichever blocks are named
  CHECK_THROWS_AS(lesson12::checksum_of(std::vector<std::byte>(12)), std::invalid_argument);
}

}  // namespace lesson12_test
