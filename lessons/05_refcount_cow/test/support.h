#pragma once

// Shared by the tests on both devices: all bytes of a cache, copies with their right answer, and
// requests for samples.

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "copy_blocks.h"
#include "engine.h"
#include "lessons/03_paged_blocks/test/guards.h"
#include "qwen3/generation.h"
#include "tests/support/kv_shape.h"
#include "tests/support/shipped_model.h"

namespace lesson05_test {

using Bytes = std::vector<unsigned char>;

/// All pieces of every block of every layer: those of a block from entry (layer * num_blocks +
/// block_id) * num_pieces on.
struct Contents {
  std::vector<Bytes> parts;
  bool operator==(const Contents&) const = default;

  void copy(lesson03::PagedKvCache& cache, const lesson05::BlockCopy& copy) {
    const int num_pieces = cache.layer(0).num_pieces();
    for (int layer = 0; layer < cache.num_layers(); ++layer) {
      const auto at = [&](int32_t id) {
        return parts.begin() + num_pieces * (layer * cache.num_blocks() + id);
      };
      std::copy_n(at(copy.source), num_pieces, at(copy.destination));
    }
  }
};

/// Calls f(piece) for the pieces of every block of every layer.
template <class F>
void for_each_part(lesson03::PagedKvCache& cache, F f) {
  for (int layer = 0; layer < cache.num_layers(); ++layer) {
    const lesson03::KvBlocks blocks = cache.layer(layer);
    for (int id = 0; id < cache.num_blocks(); ++id) {
      for (int i = 0; i < blocks.num_pieces(); ++i) f(blocks.piece(id, i));
    }
  }
}

/// Bytes of K, or of V, of a block in a layer.
inline size_t part_bytes(lesson03::PagedKvCache& cache) {
  return static_cast<size_t>(cache.layer(0).piece(0, 0).bytes);
}

inline Bytes read(const void* at, size_t bytes, const kv::Stream& stream) {
  Bytes host(bytes);
  kv::copy_to_host(host.data(), at, bytes, stream);
  return host;
}

inline Bytes write_random(void* at, size_t bytes, uint64_t seed, const kv::Stream& stream) {
  std::mt19937_64 rng(seed);
  Bytes host(bytes);
  for (unsigned char& byte : host) byte = static_cast<unsigned char>(rng());
  kv::copy_to_device(at, host.data(), bytes, stream);
  return host;
}

inline Contents fill_randomly(lesson03::PagedKvCache& cache, const kv::Stream& stream) {
  Contents all;
  for_each_part(cache, [&](const lesson03::Piece& piece) {
    const auto bytes = static_cast<size_t>(piece.bytes);
    all.parts.push_back(write_random(piece.data, bytes, all.parts.size(), stream));
  });
  return all;
}

inline Contents contents(lesson03::PagedKvCache& cache, const kv::Stream& stream) {
  Contents all;
  for_each_part(cache, [&](const lesson03::Piece& piece) {
    all.parts.push_back(read(piece.data, static_cast<size_t>(piece.bytes), stream));
  });
  return all;
}

/// The first byte that is not as wanted; "" if there is none.
inline std::string difference(lesson03::PagedKvCache& cache, const Contents& found,
                              const Contents& wanted) {
  for (size_t i = 0; i < wanted.parts.size(); ++i) {
    const auto [is, should] = std::ranges::mismatch(found.parts[i], wanted.parts[i]);
    if (is == found.parts[i].end()) continue;
    const int num_pieces = cache.layer(0).num_pieces();
    const int block = static_cast<int>(i) / num_pieces;
    return fmt::format("layer {}, {} of block {}, byte {}: found {}, wanted {}",
                       block / cache.num_blocks(),
                       lesson03_test::piece_name(static_cast<int>(i) % num_pieces),
                       block % cache.num_blocks(), is - found.parts[i].begin(), *is, *should);
  }
  return "";
}

/// Two layers of four blocks of two rows: all bytes of a row are one letter, small in K, large in
/// V.
inline constexpr const char* kLetters[] = {"ab cd ef gh, AB CD EF GH", "ij kl mn op, IJ KL MN OP"};

/// Calls f(row of the cache, letter) for each letter of such a layer.
template <class Text, class F>
void for_each_letter(lesson03::PagedKvCache& cache, int layer, Text& text, F f) {
  const size_t row_bytes = part_bytes(cache) / 2;
  for (int i = 0; i < 16; ++i) {
    auto* const part = cache.layer(layer).piece(i / 2 % 4, i / 8).as<char>();
    const auto at = static_cast<size_t>(i + i / 2 + i / 8);  // a space after 2, a comma after 8
    f(part + static_cast<size_t>(i % 2) * row_bytes, text[at]);
  }
}

/// One copy among such blocks. A row that is not of one letter any more reads "?".
inline void check_copy_of_letters(const kv::Stream& stream) {
  lesson03::PagedKvCache cache(kvtest::shape(2, 1, 8), stream, 4, 2);
  const size_t row_bytes = part_bytes(cache) / 2;
  for (int layer = 0; layer < 2; ++layer) {
    for_each_letter(cache, layer, kLetters[layer], [&](char* row, char letter) {
      kv::fill_bytes(row, letter, row_bytes, stream);
    });
  }
  const lesson05::BlockCopy copy{.source = 0, .destination = 2};
  lesson05::copy_blocks({.cache = &cache, .copies = {&copy, 1}}, stream);
  const auto read_layer = [&](int layer) {
    std::string text = kLetters[layer];
    for_each_letter(cache, layer, text, [&](char* row, char& letter) {
      const Bytes bytes = read(row, row_bytes, stream);
      const bool one = std::ranges::count(bytes, bytes[0]) == std::ssize(bytes);
      letter = one ? static_cast<char>(bytes[0]) : '?';
    });
    return text;
  };
  CHECK(read_layer(0) == "ab cd ab gh, AB CD AB GH");  // K of blocks 0 to 3, V of blocks 0 to 3
  CHECK(read_layer(1) == "ij kl ij op, IJ KL IJ OP");
}

/// Three layers of 9 blocks, two lists of copies, the second longer than the first and reading what
/// the first wrote. Then every byte of the cache is compared.
inline void check_copies_of(int kv_heads, int head_dim, int block_size, const kv::Stream& stream,
                            kv::KvFormat format = kv::KvFormat::kActivations) {
  CAPTURE(kv_heads);
  CAPTURE(head_dim);
  CAPTURE(block_size);
  for (const int guard_rows : {1, 0}) {
    CAPTURE(guard_rows);
    lesson03::PagedKvCache cache(kvtest::shape(3, kv_heads, head_dim), stream, 9, block_size,
                                 guard_rows, format);
    Contents wanted = fill_randomly(cache, stream);
    const std::vector<std::vector<lesson05::BlockCopy>> lists{{{6, 0}},
                                                              {{0, 8}, {2, 5}, {0, 3}, {4, 7}}};
    for (const auto& copies : lists) {
      lesson05::copy_blocks({.cache = &cache, .copies = copies}, stream);
      for (const lesson05::BlockCopy& copy : copies) wanted.copy(cache, copy);
    }
    CHECK(difference(cache, contents(cache, stream), wanted) == "");
    CHECK(lesson03_test::touched_guard(cache, stream) == "");
  }
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
