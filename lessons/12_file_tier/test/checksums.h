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
#include "lessons/03_paged_blocks/cli/fill_blocks.h"
#include "lessons/11_host_tier/swap_blocks.h"
#include "tests/support/kv_shape.h"

namespace lesson12_test {

using lesson12::BlockMove;
using Moves = std::vector<BlockMove>;

/// Checks blocks of random bytes: the checksum on the device is that of the copy in the host, for
/// some of the blocks in any order. The other places stay as they were.
inline void check_checksums(int kv_heads, int head_dim, int block_size, const kv::Stream& stream,
                            kv::KvFormat format = kv::KvFormat::kActivations, int num_blocks = 9) {
  CAPTURE(head_dim);
  CAPTURE(block_size);
  constexpr uint64_t kUntouched = 0xABCDEF;
  lesson12::PagedKvCache cache(kvtest::shape(3, kv_heads, head_dim), stream, num_blocks, block_size,
                               0, format);
  const lesson12::HostBlocks host(cache.bytes_per_block(), stream.device(), num_blocks);
  std::mt19937_64 rng(5);
  for (int32_t id = 0; id < num_blocks; ++id) {
    for (std::byte& byte : host.block(id)) byte = static_cast<std::byte>(rng());
  }
  Moves all;
  for (int32_t id = 0; id < num_blocks; ++id) all.push_back({num_blocks - 1 - id, id});
  lesson11::swap_blocks({.cache = &cache, .host = &host, .way = lesson11::Way::kLoad, .moves = all},
                        stream);
  const kv::HostBuffer sums(stream.device(), static_cast<size_t>(num_blocks) * sizeof(uint64_t));
  const std::span found(sums.as<uint64_t>(), static_cast<size_t>(num_blocks));
  std::ranges::fill(found, kUntouched);
  Moves some = all;
  some.erase(some.begin() + 1);
  std::swap(some.front(), some.back());
  lesson12::checksum_blocks({.cache = &cache, .blocks = some, .checksums = found.data()}, stream);
  stream.synchronize();
  CHECK(found[1] == kUntouched);
  for (const BlockMove& move : some) {
    REQUIRE(found[static_cast<size_t>(move.host)] == lesson12::checksum_of(host.block(move.host)));
  }
}

/// Any byte of a block that changes on the device changes its checksum: of K, V and the scales.
inline void check_damage(const kv::Stream& stream) {
  for (const kv::KvFormat format : kvtest::kFormats) {
    CAPTURE(static_cast<int>(format));
    lesson12::PagedKvCache cache(kvtest::shape(2, 1, 16), stream, 3, 2, 0, format);
    lesson03::fill_blocks(cache, 0x5A, stream);
    const kv::HostBuffer sums(stream.device(), 4 * sizeof(uint64_t));
    const auto sum = [&] {
      const BlockMove move{.device = 1, .host = 3};
      lesson12::checksum_blocks(
          {.cache = &cache, .blocks = {&move, 1}, .checksums = sums.as<uint64_t>()}, stream);
      stream.synchronize();
      return sums.as<uint64_t>()[3];
    };
    const uint64_t whole = sum();
    for (int layer = 0; layer < cache.num_layers(); ++layer) {
      for (int i = 0; i < cache.layer(0).num_pieces(); ++i) {
        CAPTURE(i);
        const lesson03::Piece piece = cache.layer(layer).piece(1, i);
        kv::fill_bytes(piece.data + piece.bytes - 1, 0x5B, 1, stream);
        CHECK(sum() != whole);
        kv::fill_bytes(piece.data + piece.bytes - 1, 0x5A, 1, stream);
      }
    }
    CHECK(sum() == whole);
  }
}

inline void check_refusals(const kv::Stream& stream) {
  lesson12::PagedKvCache cache(kvtest::shape(1, 1, 8), stream, 3, 2);
  const kv::HostBuffer sums(stream.device(), 64);
  const auto sum = [&](lesson12::PagedKvCache& of, const Moves& blocks) {
    lesson12::checksum_blocks({.cache = &of, .blocks = blocks, .checksums = sums.as<uint64_t>()},
                              stream);
  };
  constexpr uint64_t kUntouched = 0xABCDEF;
  std::ranges::fill(std::span(sums.as<uint64_t>(), 8), kUntouched);
  CHECK_THROWS_WITH_AS(sum(cache, {{1, 1}, {3, 2}}),
                       "checksum_blocks: there is no block 3, the ids end at 3", std::out_of_range);
  CHECK(sums.as<uint64_t>()[1] == kUntouched);  // nothing is summed up before a refusal
  CHECK_THROWS_AS(sum(cache, {{-1, 1}}), std::out_of_range);
  lesson12::PagedKvCache odd(kvtest::shape(1, 1, 1), stream, 3, 1);
  CHECK_THROWS_AS(sum(odd, {{1, 1}}), std::invalid_argument);
  CHECK_THROWS_AS(sum(odd, {}), std::invalid_argument);  // whichever blocks are named
  CHECK_THROWS_AS(lesson12::checksum_of(std::vector<std::byte>(12)), std::invalid_argument);
}

}  // namespace lesson12_test
