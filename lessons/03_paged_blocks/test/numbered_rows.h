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

/// Four rows to three blocks of two slots.
inline void check_rows_in_slots(const kv::Stream& stream) {
  lesson03::PagedKvCache pool = blocks_of_two(3, 1, 8, stream);
  const lesson03::KvBlocks cache = pool.layer(0);
  write_rows(cache, numbered({10, 11, 12, 13}, cache, stream),
             numbered({110, 111, 112, 113}, cache, stream), {5, lesson03::kNoSlot, 1, 3}, stream);
  INFO("rows 10 11 12 13 of K, and 110 111 112 113 of V, go to slots 5 -1 1 3");
  const std::string k = held(cache.k, cache, stream), v = held(cache.v, cache, stream);
  CHECK(k == ". 12 | . 13 | . 10");
  CHECK(v == ". 112 | . 113 | . 110");
}

/// Blocks 1 and 2 of a pool of four, as a cache of two. What goes to a slot that it does not have
/// is seen in the others.
inline void check_slots_outside(const kv::Stream& stream) {
  lesson03::PagedKvCache pool = blocks_of_two(4, 2, 8, stream);
  const lesson03::KvBlocks all = pool.layer(0);
  lesson03::KvBlocks cache = off_by(all, 2, 2, stream.device());
  cache.num_blocks = 2;
  std::vector<int64_t> slots{3, lesson03::kNoSlot};
#ifdef NDEBUG  // a debug build rejects a slot outside the cache
  slots.insert(slots.end(), {4, -2});
#endif
  const Words rows = numbered({10, 11, 12, 13}, cache, stream);
  write_rows(cache, rows, rows, slots, stream);
  INFO("rows 10 11 12 13 go to slots 3 -1 4 -2 of the two blocks in the middle, slots 0 to 3");
  const std::string k = held(all.k, all, stream), v = held(all.v, all, stream);
  CHECK(k == ". . | . . | . 10 | . .");
  CHECK(v == ". . | . . | . 10 | . .");
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

/// Two sequences come out of four blocks of two slots, the second one first.
inline void check_rows_in_order(const kv::Stream& stream) {
  lesson03::PagedKvCache pool = blocks_of_two(4, 2, 8, stream);
  const lesson03::KvBlocks cache = pool.layer(0);
  number_slots(cache, stream);
  // Entries after a sequence's last block must not be followed. Both tables are wider than the
  // longest sequence: a table that begins too early begins with block 3.
  const Gathered got = gather_rows(cache, {3, 0, 1, 3, 2, -1, 1 << 30, -1}, {5, 1}, {1, 0}, stream);
  INFO("slot s holds s (K) and 100 + s (V), a block has two slots");
  INFO("a table has 4 entries, and those after the last block are never read");
  INFO("sequence 0: table 3 0 1, 5 tokens, to row 1 and on; sequence 1: table 2, 1 token, row 0");
  const std::string k = drawn(got.k, cache, 99, stream), v = drawn(got.v, cache, 99, stream);
  CHECK(k == "4 6 7 0 1 2");
  CHECK(v == "104 106 107 100 101 102");
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

inline void check_written_past_2_to_31(const kv::Stream& stream) {
  const FarBlock far(stream);
  const auto slots =
      kvtest::upload(std::vector<int64_t>{FarBlock::kSlot + 1, FarBlock::kSlot}, stream);
  start_write(far.cache, far.rows.data(), far.rows.data(), slots.as<const int64_t>(), 2, stream);
  INFO("rows 10 11 go to slots 2^31 + 1 and 2^31");
  CHECK(drawn(words_of(far.k, stream), far.cache, 2, stream) == "11 10");
  CHECK(drawn(words_of(far.v, stream), far.cache, 2, stream) == "11 10");
}

/// The third of three tables of 2^30 entries; no other has memory, or a token.
inline void check_gathered_past_2_to_31(const kv::Stream& stream) {
  const FarBlock far(stream);
  const auto table = kvtest::upload(std::vector<int32_t>{FarBlock::kId}, stream);
  const auto seq_len = kvtest::upload(std::vector<int32_t>{0, 0, 2}, stream);
  const auto begin = kvtest::upload(std::vector<int64_t>{0, 0, FarBlock::kSlot}, stream);
  const auto k = kvtest::poisoned(far.rows.bytes(), stream),
             v = kvtest::poisoned(k.bytes(), stream);
  const auto row_bytes = static_cast<int64_t>(k.bytes()) / 2;
  lesson03::KvBlocks cache = far.cache;
  cache.v = kvtest::without_first(far.rows.data(), FarBlock::kId * static_cast<int64_t>(k.bytes()));
  cache.k = cache.v;
  const void* const tables = kvtest::without_first(table.data(), int64_t{2} * FarBlock::kId * 4);
  lesson03::gather_kv({.cache = cache,
                       .block_tables = static_cast<const int32_t*>(tables),
                       .seq_len = seq_len.as<const int32_t>(),
                       .out_begin = begin.as<const int64_t>(),
                       .max_blocks_per_seq = FarBlock::kId,
                       .num_seqs = 3,
                       .max_seq_len = 2,
                       .k_out = kvtest::without_first(k.data(), FarBlock::kSlot * row_bytes),
                       .v_out = kvtest::without_first(v.data(), FarBlock::kSlot * row_bytes)},
                      stream);
  INFO("rows 10 11 come out of block 2^30, which is entry 2^31 of all tables, to row 2^31");
  CHECK(drawn(words_of(k, stream), cache, 2, stream) == "10 11");
  CHECK(drawn(words_of(v, stream), cache, 2, stream) == "10 11");
}

/// Two kernels at once: the second reads the rows that the first one writes.
inline void check_written_in_turn(const kv::Stream& stream) {
  lesson03::PagedKvCache first = blocks_of_two(2, 2, 8, stream);
  lesson03::PagedKvCache second = blocks_of_two(2, 2, 8, stream);
  const lesson03::KvBlocks from = first.layer(0), to = second.layer(0);
  const auto rows = kvtest::upload(numbered({10, 11, 12}, from, stream), stream);
  const auto slots = kvtest::upload(std::vector<int64_t>{1, 2, 0}, stream);
  start_write(from, rows.data(), rows.data(), slots.as<const int64_t>(), 3, stream);
  start_write(to, from.k, from.v, slots.as<const int64_t>(), 3, stream);
  INFO("rows 10 11 12 go to slots 1 2 0 of a cache, and what is there to slots 1 2 0 of another");
  const std::string k = held(to.k, to, stream), v = held(to.v, to, stream);
  CHECK(k == "11 12 | 10 .");
  CHECK(v == "11 12 | 10 .");
}

/// Two kernels at once: the first writes the slots of the second, two to a row of 16 bytes.
inline void check_slots_in_turn(const kv::Stream& stream) {
  lesson03::PagedKvCache made = blocks_of_two(1, 1, 8, stream);
  lesson03::PagedKvCache pool = blocks_of_two(2, 2, 8, stream);
  const lesson03::KvBlocks slots = made.layer(0), cache = pool.layer(0);
  const auto wanted = kvtest::upload(std::vector<int64_t>{1, 2, 0, lesson03::kNoSlot}, stream);
  const auto in_order = kvtest::upload(std::vector<int64_t>{0, 1}, stream);
  const auto rows = kvtest::upload(numbered({10, 11, 12, 13}, cache, stream), stream);
  start_write(slots, wanted.data(), wanted.data(), in_order.as<const int64_t>(), 2, stream);
  start_write(cache, rows.data(), rows.data(), static_cast<const int64_t*>(slots.k), 4, stream);
  INFO("a kernel writes the slots 1 2 0 -1, and the next one takes rows 10 11 12 13 there");
  const std::string k = held(cache.k, cache, stream), v = held(cache.v, cache, stream);
  CHECK(k == "12 10 | 11 .");
  CHECK(v == "12 10 | 11 .");
}

/// Two kernels at once: the second gathers the rows that the first one writes.
inline void check_gathered_in_turn(const kv::Stream& stream) {
  lesson03::PagedKvCache pool = blocks_of_two(2, 2, 8, stream);
  const lesson03::KvBlocks cache = pool.layer(0);
  const auto rows = kvtest::upload(numbered({10, 11, 12}, cache, stream), stream);
  const auto slots = kvtest::upload(std::vector<int64_t>{2, 3, 0}, stream);
  const Gather gather(cache, {1, 0}, {3}, {0}, stream);
  start_write(cache, rows.data(), rows.data(), slots.as<const int64_t>(), 3, stream);
  gather.start(stream);
  INFO("rows 10 11 12 go to slots 2 3 0, and come back by the table 1 0");
  CHECK(drawn(words_of(gather.k, stream), cache, 99, stream) == "10 11 12");
  CHECK(drawn(words_of(gather.v, stream), cache, 99, stream) == "10 11 12");
}

}  // namespace lesson03_test
