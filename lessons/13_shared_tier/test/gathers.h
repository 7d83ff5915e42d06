#pragma once

// Checks of gather_layer: all layers together make what lesson 11's swap_blocks() makes. For any
// device.

#include "tests/support/readable.h"  // before the checks

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

#include "gather_layer.h"
#include "lessons/05_refcount_cow/test/block_memory.h"
#include "lessons/11_host_tier/swap_blocks.h"

namespace lesson13_test {

using lesson05_test::Bytes;
using lesson13::BlockMove;
using Moves = std::vector<BlockMove>;

inline bool all_are(std::span<const std::byte> bytes, std::byte value) {
  return std::ranges::all_of(bytes, [&](std::byte byte) { return byte == value; });
}

inline Bytes bytes_of(std::span<const std::byte> bytes) {
  const auto* const begin = reinterpret_cast<const uint8_t*>(bytes.data());
  return Bytes(begin, begin + bytes.size());
}

/// Gathers some of the blocks of random bytes, layer by layer in any order. After each layer the
/// host's blocks have the layers so far, and nothing else has been written.
inline void check_gathers(const std::vector<int64_t>& bytes, const kv::Stream& stream,
                          int num_blocks = 7) {
  CAPTURE(bytes[0]);
  constexpr int kLayers = 3;
  const lesson05_test::BlockMemory device(kLayers, num_blocks, bytes, stream);
  const lesson13::BlockRegions& regions = device.regions;
  const lesson13::HostBlocks random(regions.bytes_per_block(), stream.device(), num_blocks);
  const lesson13::HostBlocks host(regions.bytes_per_block(), stream.device(), num_blocks);
  std::mt19937_64 rng(3);
  Moves all, some;
  for (int32_t id = 0; id < num_blocks; ++id) {
    for (std::byte& byte : random.block(id)) byte = static_cast<std::byte>(1 + rng() % 255);
    all.push_back({num_blocks - 1 - id, id});
    if (id != 1) some.push_back({num_blocks - 1 - id, id});
  }
  lesson11::swap_blocks(
      {.regions = &regions, .host = &random, .direction = lesson11::Direction::kLoad, .moves = all},
      stream);
  std::memset(host.data(), 0, host.bytes_per_block() * static_cast<size_t>(num_blocks));
  const size_t layer_bytes = host.bytes_per_block() / kLayers;
  std::vector<Bytes> wanted(num_blocks, Bytes(host.bytes_per_block()));
  for (const int layer : {1, 2, 0}) {
    CAPTURE(layer);
    lesson13::gather_layer({.regions = &regions, .host = &host, .layer = layer, .moves = some},
                           stream);
    stream.synchronize();
    for (const BlockMove& move : some) {
      const size_t begin = static_cast<size_t>(layer) * layer_bytes;
      std::memcpy(&wanted[move.host][begin], &random.block(move.host)[begin], layer_bytes);
    }
    for (int32_t id = 0; id < num_blocks; ++id) {
      INFO("host block ", id);
      REQUIRE(lesson05_test::difference(regions, bytes_of(host.block(id)), wanted[id]) == "");
    }
  }
}

/// Blocks of 32 bytes at places that no int holds: of the device's 2^27 only the last one is there.
inline void check_gathers_past_2_to_the_31(const kv::Stream& stream) {
  constexpr int kDevice = 1 << 27, kHost = (1 << 26) + 1;
  const lesson05_test::BlockMemory device(1, kDevice, {32}, stream, 1, kDevice - 1);
  const lesson13::HostBlocks host(32, stream.device(), kHost);
  kv::fill_bytes(device.regions.list()[0].block(kDevice - 1), 0x11, 32, stream);
  const Moves moves{{kDevice - 1, kHost - 1}};
  lesson13::gather_layer({.regions = &device.regions, .host = &host, .layer = 0, .moves = moves},
                         stream);
  stream.synchronize();
  CHECK(all_are(host.block(kHost - 1), std::byte{0x11}));
}

inline void check_refused_gathers(const kv::Stream& stream) {
  const lesson05_test::BlockMemory device(2, 3, {64, 64}, stream);
  const lesson13::HostBlocks host(device.regions.bytes_per_block(), stream.device(), 4);
  const auto gather = [&](int layer, const Moves& moves) {
    lesson13::gather_layer(
        {.regions = &device.regions, .host = &host, .layer = layer, .moves = moves}, stream);
  };
  CHECK_THROWS_WITH_AS(gather(2, {}), "gather_layer: there is no layer 2, they end at 2",
                       std::out_of_range);
  CHECK_THROWS_WITH_AS(gather(0, {{3, 1}}),
                       "gather_layer: there is no device block 3, they end at 3",
                       std::out_of_range);
  CHECK_THROWS_AS(gather(0, {{-1, 1}}), std::out_of_range);
  CHECK_THROWS_AS(gather(0, {{1, 4}}), std::out_of_range);
  std::memset(host.block(1).data(), 7, host.bytes_per_block());
  CHECK_THROWS_AS(gather(0, {{1, 1}, {3, 2}}), std::out_of_range);
  stream.synchronize();
  CHECK(all_are(host.block(1), std::byte{7}));  // the first move has not been made either
  gather(1, {{2, 3}});
}

}  // namespace lesson13_test
