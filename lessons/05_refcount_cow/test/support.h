#pragma once

// Shared by the tests on both devices: copies with their right answer, and requests for samples.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "block_memory.h"
#include "copy_blocks.h"
#include "engine.h"
#include "qwen3/generation.h"
#include "tests/support/device_arrays.h"
#include "tests/support/kv_shape.h"
#include "tests/support/shipped_model.h"

namespace lesson05_test {

/// Copies among the expected bytes.
inline void copy(Contents& contents, const lesson05::BlockCopy& copy) {
  contents[copy.destination] = contents[copy.source];
}

/// Two layers of four blocks of two rows: all bytes of a row are one letter, small in K, large in
/// V.
inline constexpr const char* kLetters[] = {"ab cd ef gh, AB CD EF GH", "ij kl mn op, IJ KL MN OP"};

/// Calls f(row of the cache, its bytes, letter) for each letter of such a layer.
template <class Text, class F>
void for_each_letter(const lesson05::BlockRegions& regions, int layer, Text& text, F f) {
  for (int i = 0; i < 16; ++i) {
    const lesson05::Region& region = regions.list()[2 * layer + i / 8];
    const int row_bytes = region.bytes / 2;
    const size_t at = i + i / 2 + i / 8;  // a space after 2, a comma after 8
    f(region.block(i / 2 % 4) + i % 2 * row_bytes, row_bytes, text[at]);
  }
}

/// One copy among such blocks. A row that is not of one letter any more reads "?".
inline void check_copy_of_letters(const kv::Stream& stream) {
  const lesson03::PagedKvCache cache(kvtest::shape(2, 1, 8), stream, 4, 2);
  const lesson05::BlockRegions regions = lesson05::regions_of(cache, stream);
  for (int layer = 0; layer < 2; ++layer) {
    for_each_letter(regions, layer, kLetters[layer], [&](std::byte* row, int bytes, char letter) {
      kv::fill_bytes(row, letter, bytes, stream);
    });
  }
  const lesson05::BlockCopy copy{.source = 0, .destination = 2};
  lesson05::copy_blocks({.regions = &regions, .copies = {&copy, 1}}, stream);
  const auto read_layer = [&](int layer) {
    std::string text = kLetters[layer];
    for_each_letter(regions, layer, text, [&](const std::byte* row, int n, char& letter) {
      const auto bytes = kvtest::download<char>(row, n, stream);
      letter = std::ranges::count(bytes, bytes[0]) == n ? bytes[0] : '?';
    });
    return text;
  };
  CHECK(read_layer(0) == "ab cd ab gh, AB CD AB GH");  // K of blocks 0 to 3, V of blocks 0 to 3
  CHECK(read_layer(1) == "ij kl ij op, IJ KL IJ OP");
}

/// Three layers of 9 blocks, two lists of copies, the second longer than the first and reading what
/// the first wrote. Then every byte of the blocks is compared.
inline void check_copies_of(const std::vector<int64_t>& bytes, const kv::Stream& stream) {
  CAPTURE(bytes[0]);
  const BlockMemory memory(3, 9, bytes, stream);
  Contents wanted = fill_randomly(memory.regions, stream);
  const std::vector<std::vector<lesson05::BlockCopy>> lists{{{6, 0}},
                                                            {{0, 8}, {2, 5}, {0, 3}, {4, 7}}};
  for (const auto& copies : lists) {
    lesson05::copy_blocks({.regions = &memory.regions, .copies = copies}, stream);
    for (const lesson05::BlockCopy& one : copies) copy(wanted, one);
  }
  CHECK(difference(memory.regions, wanted, stream) == "");
}

/// Copies the last but one of 2^27 blocks of 32 bytes to the last. No int holds their places.
inline void check_copy_past_2_to_the_31(const kv::Stream& stream) {
  constexpr int kBlocks = 1 << 27;
  const BlockMemory memory(1, kBlocks, {32}, stream, 1, kBlocks - 2);
  const lesson05::BlockRegions& regions = memory.regions;
  kv::fill_bytes(regions.list()[0].block(kBlocks - 2), 7, 32, stream);
  const lesson05::BlockCopy copy{.source = kBlocks - 2, .destination = kBlocks - 1};
  lesson05::copy_blocks({.regions = &regions, .copies = {&copy, 1}}, stream);
  CHECK(read_block(regions, kBlocks - 1, stream) == Bytes(32, 7));
}

/// A request whose samples differ.
inline kv::Request hot_request(int prompt, int max_tokens) {
  kv::Request request = kvtest::request_of(prompt, max_tokens);
  request.sampling = {.temperature = 1.5f, .seed = 7};
  return request;
}

inline kv::GenerateResult sample(lesson05::SharingEngine& engine, const kv::Request& request, int n,
                                 const kv::TokenCallback& on_token = {}) {
  return engine.generate(kv::samples_of(request, n), on_token);
}

}  // namespace lesson05_test
