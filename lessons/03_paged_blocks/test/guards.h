#pragma once

// Debug pools: caches that hand out every other block and keep those between as guards, full of
// NaN. A read of a guard shows in the kernel's result, a write in num_touched().

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "lessons/03_paged_blocks/engine.h"
#include "lessons/03_paged_blocks/kv_blocks.h"
#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "tests/support/device_arrays.h"
#include "tests/support/kv_shape.h"

namespace lesson03_test {

/// Blocks of a debug pool that has `num_blocks` to hand out: a guard before, between and after
/// them.
constexpr int with_guards(int num_blocks) { return 2 * num_blocks + 1; }
/// The id of the block that a debug pool hands out as its number `index`: the guards have the even
/// ids.
constexpr int32_t between_guards(int32_t index) { return 2 * index + 1; }

/// Calls f(guard, its bytes) for the guards of one array of blocks: K of a layer, or V.
template <class F>
void for_each_guard(void* blocks, int num_blocks, int64_t bytes_per_block, F f) {
  for (int64_t id = 0; id < num_blocks; id += 2) {
    f(static_cast<std::byte*>(blocks) + id * bytes_per_block, static_cast<size_t>(bytes_per_block));
  }
}
template <class F>
void for_each_guard(const lesson03::PagedKvCache& cache, F f) {
  for (const lesson03::KvBlocks& layer : cache.layers()) {
    for (void* const blocks : {layer.k, layer.v}) {
      for_each_guard(blocks, cache.num_blocks(), cache.bytes_per_block() / (2 * cache.num_layers()),
                     f);
    }
  }
}
inline void fill_guards(const lesson03::PagedKvCache& cache, const kv::Stream& stream) {
  for_each_guard(cache, [&](std::byte* guard, size_t bytes) {
    kv::fill_bytes(guard, 0xFF, bytes, stream);  // all bits set: NaN
  });
}
/// Returns a function that counts in `touched` the bytes of a guard that were written to.
inline auto count_touched(int64_t& touched, const kv::Stream& stream) {
  return [&](const std::byte* guard, size_t bytes) {
    const auto found = kvtest::download<uint8_t>(guard, bytes, stream);
    touched += std::ssize(found) - std::ranges::count(found, 0xFF);
  };
}
inline int64_t num_touched(const lesson03::PagedKvCache& cache, const kv::Stream& stream) {
  int64_t touched = 0;
  for_each_guard(cache, count_touched(touched, stream));
  return touched;
}

/// A layer as a kernel sees it, with K off by k_rows rows and V by v_rows.
inline lesson03::KvBlocks off_by(lesson03::KvBlocks blocks, int k_rows, int v_rows,
                                 kv::Device device) {
  const auto element_bytes = static_cast<int>(size_of(kv::activation_dtype(device)));
  const int row_bytes = blocks.num_kv_heads * blocks.head_dim * element_bytes;
  blocks.k = static_cast<std::byte*>(blocks.k) + k_rows * row_bytes;
  blocks.v = static_cast<std::byte*>(blocks.v) + v_rows * row_bytes;
  return blocks;
}
/// The right place, and every way to be wrong by one row: of K or of V, before or after.
struct Off {
  int k, v;
  bool right() const { return k == 0 && v == 0; }
};
inline constexpr Off kOffByOne[] = {{0, 0}, {-1, 0}, {1, 0}, {0, -1}, {0, 1}};

/// Elements of K or V, in words of 16 bits: only bits are compared.
using Words = std::vector<uint16_t>;
inline Words random_words(std::mt19937_64& rng, size_t n) {
  Words words(n);
  for (uint16_t& word : words) word = static_cast<uint16_t>(rng());
  return words;
}
inline Words words_of(const kv::DeviceBuffer& buffer, const kv::Stream& stream) {
  return kvtest::download<uint16_t>(buffer.data(), buffer.bytes() / 2, stream);
}
/// Words of a row of K or V.
inline size_t width_of(const lesson03::KvBlocks& cache, const kv::Stream& stream) {
  return static_cast<size_t>(cache.row_width()) * size_of(kv::activation_dtype(stream.device())) /
         2;
}

/// The first difference between two lists of rows; "" if they are equal.
inline std::string first_difference(const Words& found, const Words& expected, size_t width) {
  if (found.size() != expected.size()) {
    return fmt::format("{} words, expected {}", found.size(), expected.size());
  }
  const size_t at = std::ranges::mismatch(found, expected).in1 - found.begin();
  if (at == found.size()) return "";
  return fmt::format("row {}, 16-bit word {}: found {:#06x}, expected {:#06x}", at / width,
                     at % width, found[at], expected[at]);
}

/// Queues a write of rows that are on the device, as many as there are slots, and does not wait.
inline void start_write(const lesson03::KvBlocks& cache, const void* k, const void* v,
                        const int64_t* slots, int num_rows, const kv::Stream& stream) {
  lesson03::write_kv({.k = k, .v = v, .slot_mapping = slots, .num_rows = num_rows, .cache = cache},
                     stream);
}
inline void write_rows(const lesson03::KvBlocks& cache, const Words& k, const Words& v,
                       const std::vector<int64_t>& slots, const kv::Stream& stream) {
  const auto d_k = kvtest::upload(k, stream), d_v = kvtest::upload(v, stream);
  const auto d_slots = kvtest::upload(slots, stream);
  start_write(cache, d_k.data(), d_v.data(), d_slots.as<const int64_t>(),
              static_cast<int>(slots.size()), stream);
  stream.synchronize();  // before the rows are freed
}

/// Appends values: read by mistake they are one more sequence, whose rows go over the first.
template <class T>
std::vector<T> and_one_more(std::vector<T> values, T value, size_t count = 1) {
  values.insert(values.end(), count, value);
  return values;
}

/// A gather of sequences with these tables, to k and v, [lens.size(), width], each from its row
/// out_begin on. start() queues it and does not wait, so a test can put kernels around it. The
/// tables are read at `at`, if that is given.
struct Gather {
  Gather(const lesson03::KvBlocks& from, const std::vector<int32_t>& block_tables,
         const std::vector<int32_t>& lens, const std::vector<int64_t>& out_begin,
         const kv::Stream& stream, const int32_t* at = nullptr)
      : cache(from),
        tables_at(at),
        tables(kvtest::upload(and_one_more(block_tables, 0, block_tables.size() / lens.size()),
                              stream)),
        seq_len(kvtest::upload(and_one_more(lens, 1), stream)),
        begin(kvtest::upload(and_one_more<int64_t>(out_begin, 0), stream)),
        num_seqs(static_cast<int>(lens.size())),
        max_blocks(static_cast<int>(block_tables.size()) / num_seqs),
        max_seq_len(*std::ranges::max_element(lens)) {
    const size_t rows = std::accumulate(lens.begin(), lens.end(), 0);
    k = kvtest::poisoned(rows * width_of(cache, stream) * 2, stream);
    v = kvtest::poisoned(k.bytes(), stream);
  }
  void start(const kv::Stream& stream) const {
    lesson03::gather_kv(
        {.cache = cache,
         .block_tables = tables_at != nullptr ? tables_at : tables.as<const int32_t>(),
         .seq_len = seq_len.as<const int32_t>(),
         .out_begin = begin.as<const int64_t>(),
         .max_blocks_per_seq = max_blocks,
         .num_seqs = num_seqs,
         .max_seq_len = max_seq_len,
         .k_out = k.data(),
         .v_out = v.data()},
        stream);
  }

  lesson03::KvBlocks cache;
  const int32_t* tables_at;
  kv::DeviceBuffer tables, seq_len, begin, k, v;
  int num_seqs, max_blocks, max_seq_len;
};
struct Gathered {
  Words k, v;
};
inline Gathered gather_rows(const lesson03::KvBlocks& cache, const std::vector<int32_t>& tables,
                            const std::vector<int32_t>& lens, const std::vector<int64_t>& out_begin,
                            const kv::Stream& stream) {
  const Gather gather(cache, tables, lens, out_begin, stream);
  gather.start(stream);
  return {words_of(gather.k, stream), words_of(gather.v, stream)};
}

/// A prompt in two chunks and three steps of a model, with K and V in small blocks. That there are
/// guards between the blocks changes no logit, and no guard changes.
template <class Attention>
void check_model_in_debug_pool(kv::Model& model) {
  const std::vector<int32_t> tokens{5, 300, 77, 12, 9, 41, 8, 120, 6, 30, 31, 7, 200, 15};
  const auto logits_with = [&](const std::vector<int32_t>& block_ids, bool guards) {
    lesson03::PagedKvCache cache(model.config(), model.stream(), guards ? with_guards(4) : 4, 4);
    lesson03::fill_blocks(cache, 0xFF, model.stream());
    Attention attention(model.config(), cache);
    lesson03::BlockTable table(4);
    std::ranges::copy(block_ids, table.extend(14).begin());
    std::vector<float> all;
    int computed = 0;
    for (const int known : {4, 11, 12, 13, 14}) {
      kv::PassRows rows;
      rows.add(0, std::span(tokens).first(known), computed);
      attention.set_tables({&table});
      const auto logits = model.forward(rows, attention);
      all.insert(all.end(), logits.begin(), logits.end());
      computed = known;
    }
    if (guards) CHECK(num_touched(cache, model.stream()) == 0);
    return all;
  };
  const auto bits = [](float x) { return std::bit_cast<uint32_t>(x); };
  const std::vector<float> want = logits_with({3, 0, 2, 1}, false);
  CHECK_FALSE(std::isnan(want.back()));
  CHECK(std::ranges::equal(logits_with({7, 1, 5, 3}, true), want, {}, bits, bits));
}

}  // namespace lesson03_test
