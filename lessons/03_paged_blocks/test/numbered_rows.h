#pragma once

// Rows that can be checked by eye. Each is one number, again and again, and what a cache holds is
// a line of text: ". 12 | . 13" is row 12 in slot 1, row 13 in slot 3, and nothing in the others.

#include "guards.h"

namespace lesson03_test {

/// Rows as wide as the cache's, each full of its number, in the activation dtype.
inline Words numbered(const std::vector<int>& numbers, const lesson03::KvBlocks& cache,
                      const kv::Stream& stream) {
  Words words;
  for (const int number : numbers) {
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(number));
    for (int i = 0; i < cache.row_width(); ++i) {
      if (stream.device() == kv::Device::kCpu) words.push_back(static_cast<uint16_t>(bits));
      words.push_back(static_cast<uint16_t>(bits >> 16));  // a float's upper half is its bf16
    }
  }
  return words;
}

/// A row: its number; "." if it was not written; "<2 x 12, 6 x .>" if not all elements are the
/// same.
inline std::string drawn_row(std::span<const float> row) {
  std::vector<std::string> runs;
  const auto bits = [](float x) { return std::bit_cast<uint32_t>(x); };
  for (size_t begin = 0, end = 0; begin < row.size(); begin = end) {
    while (end < row.size() && bits(row[end]) == bits(row[begin])) ++end;
    const std::string text = std::isnan(row[begin]) ? "." : fmt::format("{}", row[begin]);
    if (end - begin == row.size()) return text;
    runs.push_back(fmt::format("{} x {}", end - begin, text));
  }
  if (runs.size() > 4) runs = {runs[0], runs[1], runs[2], "..."};
  return fmt::format("<{}>", fmt::join(runs, ", "));
}

/// Rows side by side, with a bar after every `per_block` rows.
inline std::string drawn(const Words& words, const lesson03::KvBlocks& cache, size_t per_block,
                         const kv::Stream& stream) {
  const size_t width = cache.row_width();
  const size_t halves = size_of(kv::activation_dtype(stream.device())) / 2;
  std::string text;
  std::vector<float> row(width);
  for (size_t first = 0; first < words.size(); first += width * halves) {
    for (size_t i = 0; i < width; ++i) {
      const size_t last = first + (i + 1) * halves - 1;
      const uint32_t low = halves == 2 ? words[last - 1] : 0;
      row[i] = std::bit_cast<float>(uint32_t{words[last]} << 16 | low);
    }
    const size_t number = first / (width * halves);
    text += number == 0 ? "" : number % per_block == 0 ? " | " : " ";
    text += drawn_row(row);
  }
  return text;
}

/// One layer of blocks of two slots, not yet written.
inline lesson03::PagedKvCache blocks_of_two(int num_blocks, int num_kv_heads, int head_dim,
                                            const kv::Stream& stream) {
  lesson03::PagedKvCache cache(kvtest::shape(1, num_kv_heads, head_dim), stream, num_blocks, 2);
  lesson03::fill_blocks(cache, 0xFF, stream);
  return cache;
}

/// The rows in a cache of blocks of two slots, as text.
inline std::string held(const void* rows, const lesson03::KvBlocks& cache,
                        const kv::Stream& stream) {
  const size_t words = 2 * static_cast<size_t>(cache.num_blocks) * width_of(cache, stream);
  return drawn(kvtest::download<uint16_t>(rows, words, stream), cache, 2, stream);
}

/// Slot s of K holds number s, of V 100 + s.
inline void number_slots(const lesson03::KvBlocks& cache, const kv::Stream& stream) {
  std::vector<int> k(cache.num_blocks * cache.block_size);
  std::iota(k.begin(), k.end(), 0);
  std::vector<int> v = k;
  for (int& number : v) number += 100;
  for (const auto& [to, numbers] : {std::pair{cache.k, k}, std::pair{cache.v, v}}) {
    const Words rows = numbered(numbers, cache, stream);
    kv::copy_to_device(to, rows.data(), rows.size() * sizeof(rows[0]), stream);
  }
}

/// A cache of 2^30 + 1 blocks of two slots, of which only the last has memory.
struct FarBlock {
  static constexpr int32_t kId = 1 << 30;
  static constexpr int64_t kSlot = int64_t{2} * kId;
  explicit FarBlock(const kv::Stream& stream)
      : cache{.num_blocks = kId + 1, .block_size = 2, .num_kv_heads = 1, .head_dim = 8},
        rows(kvtest::upload(numbered({10, 11}, cache, stream), stream)),
        k(kvtest::poisoned(rows.bytes(), stream)),
        v(kvtest::poisoned(rows.bytes(), stream)) {
    cache.k = kvtest::without_first(k.data(), kId * static_cast<int64_t>(rows.bytes()));
    cache.v = kvtest::without_first(v.data(), kId * static_cast<int64_t>(rows.bytes()));
  }
  lesson03::KvBlocks cache;
  kv::DeviceBuffer rows, k, v;
};

}  // namespace lesson03_test
