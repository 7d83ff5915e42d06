#pragma once

// Shared by the tests on both devices: all bytes of the device's and the host's blocks, and the
// bytes wanted after moves.

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "block_swapper.h"
#include "lessons/05_refcount_cow/test/block_memory.h"
#include "swap_blocks.h"

namespace lesson11_test {

using lesson11::BlockMove;
using lesson11::BlockSwapper;
using lesson11::Direction;
using lesson11::HostBlocks;
using lesson11::Job;
using Moves = std::vector<BlockMove>;
using Bytes = lesson05_test::Bytes;  // of a block, in the host's order

/// The device's pool and the host's, and what each of their blocks should hold.
class Pools {
 public:
  struct Sizes {
    int num_layers = 3, kv_heads = 1, head_dim = 8, block_size = 2;
    int num_device = 9, num_host = 7;
    bool scales = false;  // a third region in each layer
  };
  /// All bytes are random, the same ones for the same sizes in bytes.
  Pools(const Sizes& sizes, const kv::Stream& stream)
      : stream_(stream),
        device(sizes.num_layers, sizes.num_device,
               sizes.scales
                   ? lesson05_test::with_scales(sizes.kv_heads, sizes.head_dim, sizes.block_size)
                   : lesson05_test::k_and_v(sizes.kv_heads, sizes.head_dim, sizes.block_size,
                                            stream.device()),
               stream),
        host(device.regions.bytes_per_block(), stream.device(), sizes.num_host),
        on_device(sizes.num_device),
        in_host(sizes.num_host) {
    std::mt19937_64 rng(11);
    const auto random = [&] { return lesson05_test::random_bytes(rng, host.bytes_per_block()); };
    for (int32_t id = 0; id < sizes.num_device; ++id) set_device(id, random());
    for (int32_t id = 0; id < sizes.num_host; ++id) set_host(id, random());
  }

  void set_device(int32_t id, const Bytes& bytes) {
    on_device[id] = bytes;
    lesson05_test::write_block(device.regions, id, bytes, stream_);
  }
  void set_host(int32_t id, const Bytes& bytes) {
    in_host[id] = bytes;
    std::memcpy(host.block(id).data(), bytes.data(), bytes.size());
  }
  Bytes read_device(int32_t id) const {
    return lesson05_test::read_block(device.regions, id, stream_);
  }
  Bytes read_host(int32_t id) const {
    const auto block = host.block(id);
    const auto* const begin = reinterpret_cast<const uint8_t*>(block.data());
    return Bytes(begin, begin + block.size());
  }

  /// Applies the moves to the wanted bytes.
  void expect(Direction direction, const Moves& moves) {
    for (const BlockMove& move : moves) {
      Bytes& up = on_device[move.device];
      Bytes& down = in_host[move.host];
      direction == Direction::kOffload ? down = up : up = down;
    }
  }
  void swap(Direction direction, const Moves& moves) {
    lesson11::swap_blocks(
        {.regions = &device.regions, .host = &host, .direction = direction, .moves = moves},
        stream_);
    expect(direction, moves);
  }

  /// Describes the first wrong byte; empty if there is none.
  std::string difference() {
    stream_.synchronize();
    for (size_t i = 0; i < on_device.size() + in_host.size(); ++i) {
      const bool up = i < on_device.size();
      const auto id = static_cast<int32_t>(up ? i : i - on_device.size());
      const Bytes& wanted = up ? on_device[i] : in_host[i - on_device.size()];
      const Bytes found = up ? read_device(id) : read_host(id);
      const std::string what = lesson05_test::difference(device.regions, found, wanted);
      if (!what.empty()) return fmt::format("{} block {}, {}", up ? "device" : "host", id, what);
    }
    return "";
  }

 private:
  const kv::Stream& stream_;

 public:
  lesson05_test::BlockMemory device;
  HostBlocks host;
  std::vector<Bytes> on_device, in_host;  // as they should be, by id
};

/// Blocks of two layers, a letter for each piece: K small, V large.
inline void check_swap_of_letters(const kv::Stream& stream) {
  Pools pools({.num_layers = 2, .block_size = 1, .num_device = 3, .num_host = 3}, stream);
  const size_t piece = pools.host.bytes_per_block() / 4;
  const auto block_of = [&](const std::string& letters) {
    Bytes bytes;
    for (const char letter : letters)
      bytes.insert(bytes.end(), piece, static_cast<uint8_t>(letter));
    return bytes;
  };
  const auto letters_of = [&](const Bytes& bytes) {
    std::string letters;
    for (size_t i = 0; i < bytes.size(); i += piece) {
      const auto end = bytes.begin() + static_cast<std::ptrdiff_t>(i + piece);
      const bool one = std::all_of(end - static_cast<std::ptrdiff_t>(piece), end,
                                   [&](uint8_t byte) { return byte == bytes[i]; });
      letters += one ? static_cast<char>(bytes[i]) : '?';
    }
    return letters;
  };
  const std::string on_device[] = {"aAbB", "cCdD", "eEfF"}, in_host[] = {"gGhH", "iIjJ", "kKlL"};
  for (int32_t id = 0; id < 3; ++id) {
    pools.set_device(id, block_of(on_device[id]));
    pools.set_host(id, block_of(in_host[id]));
  }
  INFO("K of layer 0, V of layer 0, K of layer 1, V of layer 1");
  pools.swap(Direction::kOffload, {{.device = 1, .host = 2}});
  stream.synchronize();
  CHECK(letters_of(pools.read_host(2)) == "cCdD");
  CHECK(letters_of(pools.read_host(1)) == "iIjJ");
  pools.swap(Direction::kLoad, {{.device = 0, .host = 1}});
  CHECK(letters_of(pools.read_device(0)) == "iIjJ");
  CHECK(letters_of(pools.read_device(1)) == "cCdD");
  CHECK(pools.difference() == "");
}

/// No move, one, several that read one block, all blocks: down and up, what later ones read earlier
/// ones wrote. Every byte of both pools is compared.
inline void check_swaps_of(int kv_heads, int head_dim, int block_size, const kv::Stream& stream,
                           bool scales = false) {
  CAPTURE(kv_heads);
  CAPTURE(head_dim);
  CAPTURE(block_size);
  Pools pools(
      {.kv_heads = kv_heads, .head_dim = head_dim, .block_size = block_size, .scales = scales},
      stream);
  CHECK(pools.difference() == "");
  pools.swap(Direction::kOffload, {});
  pools.swap(Direction::kLoad, {{8, 6}});
  pools.swap(Direction::kOffload, {{8, 0}, {0, 6}, {8, 3}});
  pools.swap(Direction::kLoad, {{3, 6}, {2, 0}, {5, 6}, {0, 4}});
  CHECK(pools.difference() == "");
  pools.swap(Direction::kOffload, {{8, 2}, {7, 1}, {6, 0}, {5, 3}, {4, 6}, {3, 5}, {2, 4}});
  CHECK(pools.difference() == "");
}

/// Checks that an offloaded block is loaded as it was, whatever was written over it since.
inline void check_round_trip(const kv::Stream& stream, bool scales = false) {
  Pools pools({.head_dim = 16, .num_device = 4, .num_host = 4, .scales = scales}, stream);
  const Bytes first = pools.read_device(0), last = pools.read_device(3);
  pools.swap(Direction::kOffload, {{0, 3}, {3, 0}});
  stream.synchronize();
  pools.set_device(0, Bytes(first.size(), 0xAA));
  pools.set_device(3, Bytes(first.size(), 0xBB));
  pools.swap(Direction::kLoad, {{0, 3}, {3, 0}});
  CHECK(pools.read_device(0) == first);
  CHECK(pools.read_device(3) == last);
  CHECK(pools.difference() == "");
}

inline void check_refusals(const kv::Stream& stream) {
  Pools pools({.num_device = 4, .num_host = 3}, stream);
  const auto swap = [&](Direction direction, const Moves& moves) {
    lesson11::swap_blocks({.regions = &pools.device.regions,
                           .host = &pools.host,
                           .direction = direction,
                           .moves = moves},
                          stream);
  };
  CHECK_THROWS_WITH_AS(swap(Direction::kOffload, {{0, 0}, {4, 1}}),
                       "swap_blocks: there is no device block 4, the ids end at 4",
                       std::out_of_range);
  CHECK_THROWS_WITH_AS(swap(Direction::kLoad, {{0, 0}, {1, 3}}),
                       "swap_blocks: there is no host block 3, the ids end at 3",
                       std::out_of_range);
  CHECK_THROWS_AS(swap(Direction::kOffload, {{0, 0}, {-1, 1}}), std::out_of_range);
  CHECK_THROWS_AS(swap(Direction::kLoad, {{0, 0}, {1, -1}}), std::out_of_range);
  CHECK_THROWS_WITH_AS(swap(Direction::kOffload, {{0, 1}, {2, 1}}),
                       "swap_blocks: host block 1 is named again, and is copied to",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(swap(Direction::kLoad, {{2, 0}, {2, 1}}),
                       "swap_blocks: device block 2 is named again, and is copied to",
                       std::invalid_argument);
  CHECK(pools.difference() == "");
}

/// Blocks of 32 bytes at places that no int holds: of the device's 2^27 only the last two are
/// there.
inline void check_swaps_past_2_to_the_31(const kv::Stream& stream) {
  constexpr int kDevice = 1 << 27, kHost = (1 << 26) + 1;
  const lesson05_test::BlockMemory device(1, kDevice, {32}, stream, 1, kDevice - 2);
  const HostBlocks host(32, stream.device(), kHost);
  const auto swap = [&](Direction direction, const Moves& moves) {
    lesson11::swap_blocks(
        {.regions = &device.regions, .host = &host, .direction = direction, .moves = moves},
        stream);
    stream.synchronize();
  };
  const Bytes bytes(32, 7);
  lesson05_test::write_block(device.regions, kDevice - 2, bytes, stream);
  swap(Direction::kOffload, {{kDevice - 2, kHost - 1}});
  CHECK(std::memcmp(host.block(kHost - 1).data(), bytes.data(), bytes.size()) == 0);
  swap(Direction::kLoad, {{kDevice - 1, kHost - 1}});
  CHECK(lesson05_test::read_block(device.regions, kDevice - 1, stream) == bytes);
  const lesson05_test::BlockMemory two(2, kDevice, {32}, stream, 1, kDevice - 1);
  const auto layers = two.regions.list();
  CHECK(layers[1].base - layers[0].base == int64_t{32} * kDevice);
}

/// Checks batches through one block, each of which reads what the one before wrote, and their jobs.
inline void check_batches(const kv::Stream& passes, bool scales) {
  Pools pools({.head_dim = 16, .num_device = 4, .num_host = 4, .scales = scales}, passes);
  BlockSwapper swapper(pools.device.regions, pools.host, passes);
  CHECK(swapper.completed() == 0);
  swapper.wait(0);
  swapper.let_passes_wait(0);
  const auto start = [&](Direction direction, const Moves& moves) {
    pools.expect(direction, moves);
    return swapper.start(direction, moves);
  };
  CHECK(start(Direction::kOffload, {{0, 1}}) == 1);
  CHECK(start(Direction::kLoad, {{2, 1}, {3, 1}}) == 2);
  CHECK(start(Direction::kOffload, {{2, 3}, {1, 1}}) == 3);
  CHECK(start(Direction::kLoad, {}) == 4);
  CHECK_THROWS_AS(swapper.start(Direction::kLoad, Moves{{0, 0}, {4, 0}}), std::out_of_range);
  CHECK_THROWS_AS(swapper.start(Direction::kLoad, Moves{{0, 0}, {0, 1}}), std::invalid_argument);
  CHECK(start(Direction::kLoad, {{0, 3}}) == 5);
  swapper.wait(3);
  CHECK(swapper.completed() >= 3);
  swapper.wait(5);
  CHECK(swapper.completed() == 5);
  swapper.wait(5);
  swapper.let_passes_wait(5);
  CHECK(pools.difference() == "");
}

/// Checks that the time for a block is measured in loads.
inline void check_measured(const kv::Stream& passes) {
  Pools pools({.num_layers = 4, .kv_heads = 8, .head_dim = 128, .block_size = 16}, passes);
  BlockSwapper swapper(pools.device.regions, pools.host, passes);
  const Moves moves{{0, 0}, {1, 1}, {2, 2}, {3, 3}};
  swapper.wait(swapper.start(Direction::kOffload, moves));
  swapper.wait(swapper.start(Direction::kLoad, {}));
  CHECK(swapper.seconds_per_block() == 0);
  swapper.wait(swapper.start(Direction::kLoad, moves));
  const double first = swapper.seconds_per_block();
  CHECK(first > 0);
  CHECK(first < 1);
  swapper.wait(swapper.start(Direction::kLoad, moves));
  CHECK(swapper.seconds_per_block() > 0.5 * first);  // the average keeps most of the first sample
}

}  // namespace lesson11_test
