#pragma once

// Checks of gather_layer: all layers together make what lesson 11's swap_blocks() makes. For any
// device.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

#include "gather_layer.h"
#include "lessons/11_host_tier/swap_blocks.h"
#include "tests/support/kv_shape.h"

namespace lesson13_test {

using lesson13::BlockMove;
using Moves = std::vector<BlockMove>;

inline bool all_are(std::span<const std::byte> bytes, std::byte value) {
  return std::ranges::all_of(bytes, [&](std::byte byte) { return byte == value; });
}

/// Gathers some of the blocks of a cache of random bytes, layer by layer in any order. After the
/// first layer nothing else has been written; after the last one the blocks are whole.
inline void check_gathers(int kv_heads, int head_dim, int block_size, const kv::Stream& stream,
                          kv::KvFormat format = kv::KvFormat::kActivations, int num_blocks = 7) {
  CAPTURE(head_dim);
  CAPTURE(block_size);
  constexpr int kLayers = 3;
  lesson13::PagedKvCache cache(kvtest::shape(kLayers, kv_heads, head_dim), stream, num_blocks,
                               block_size, 2, format);
  const lesson13::HostBlocks random(cache.bytes_per_block(), stream.device(), num_blocks);
  const lesson13::HostBlocks host(cache.bytes_per_block(), stream.device(), num_blocks);
  std::mt19937_64 rng(3);
  Moves all, some;
  for (int32_t id = 0; id < num_blocks; ++id) {
    for (std::byte& byte : random.block(id)) byte = static_cast<std::byte>(1 + rng() % 255);
    all.push_back({num_blocks - 1 - id, id});
    if (id != 1) some.push_back({num_blocks - 1 - id, id});
  }
  lesson11::swap_blocks(
      {.cache = &cache, .host = &random, .way = lesson11::Way::kLoad, .moves = all}, stream);
  std::memset(host.data(), 0, host.bytes_per_block() * static_cast<size_t>(num_blocks));
  const size_t layer_bytes = host.bytes_per_block() / kLayers;
  bool first = true;
  for (const int layer : {1, 2, 0}) {
    lesson13::gather_layer({.cache = &cache, .host = &host, .layer = layer, .moves = some}, stream);
    stream.synchronize();
    for (const BlockMove& move : some) {
      const auto found = std::span<const std::byte>(host.block(move.host));
      const auto wanted = std::span<const std::byte>(random.block(move.host));
      const size_t begin = static_cast<size_t>(layer) * layer_bytes;
      CHECK(std::ranges::equal(found.subspan(begin, layer_bytes),
                               wanted.subspan(begin, layer_bytes)));
      if (first) CHECK(all_are(found.first(begin), std::byte{0}));
      if (first) CHECK(all_are(found.subspan(begin + layer_bytes), std::byte{0}));
    }
    first = false;
  }
  CHECK(all_are(host.block(1), std::byte{0}));
  for (const BlockMove& move : some) {
    REQUIRE(std::ranges::equal(host.block(move.host), random.block(move.host)));
  }
}

inline void check_refused_gathers(const kv::Stream& stream) {
  lesson13::PagedKvCache cache(kvtest::shape(2, 1, 8), stream, 3, 2);
  const lesson13::HostBlocks host(cache.bytes_per_block(), stream.device(), 4);
  const auto gather = [&](int layer, const Moves& moves) {
    lesson13::gather_layer({.cache = &cache, .host = &host, .layer = layer, .moves = moves},
                           stream);
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
