#pragma once

// Debug pools: rows of NaN before, between and after the blocks (PagedKvCache, guard_rows). What a
// kernel reads there is seen in its result, what it writes there by touched_guard().

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "lessons/03_paged_blocks/engine.h"
#include "lessons/03_paged_blocks/gather_kv.h"
#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "lessons/03_paged_blocks/write_kv.h"
#include "tests/support/device_arrays.h"
#include "tests/support/kv_shape.h"

namespace lesson03_test {

/// The first guard row that is not as the cache made it: something was written there. "": none.
inline std::string touched_guard(lesson03::PagedKvCache& cache, const kv::Stream& stream) {
  const int guards = cache.guard_rows(), stride = cache.block_size() + guards;
  const auto row_bytes = static_cast<size_t>(cache.bytes_per_token() / cache.num_layers() / 2);
  const int num_blocks = cache.num_layers() * cache.num_blocks();
  const auto first = cache.block(0, 0);
  for (const void* block : {first.k, first.v}) {
    const auto* memory = static_cast<const std::byte*>(block) - guards * row_bytes;
    const auto bytes =
        kvtest::download<uint8_t>(memory, (guards + num_blocks * stride) * row_bytes, stream);
    for (size_t i = 0; i < bytes.size(); ++i) {
      const auto row = static_cast<int>(i / row_bytes);
      if (row % stride >= guards || bytes[i] == 0xFF) continue;
      return fmt::format("{}, guard {} before block {} of layer {}", block == first.k ? "K" : "V",
                         row % stride, row / stride % cache.num_blocks(),
                         row / stride / cache.num_blocks());
    }
  }
  return "";
}

/// A layer as a kernel sees it that is wrong by so many rows of K and of V.
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

inline bool has_nan(const kv::DeviceBuffer& activations, const kv::Stream& stream) {
  const size_t n = activations.bytes() / size_of(kv::activation_dtype(stream.device()));
  const auto values =
      stream.device() == kv::Device::kCuda
          ? kvtest::floats_of(kvtest::download<kv::BFloat16>(activations.data(), n, stream))
          : kvtest::download<float>(activations.data(), n, stream);
  for (const float x : values) {
    if (std::isnan(x)) return true;
  }
  return false;
}

/// write_kv and gather_kv of whole blocks, the first of all and the last of all among them: guards
/// stay as they are and out of what is gathered. Off by one row, and the guards tell.
inline void check_write_and_gather_in_debug_pool(const kv::Stream& stream) {
  constexpr int kBlocks = 5, kLayers = 2;
  for (const int block_size : {1, 4, 16}) {
    const std::vector<int32_t> table{kBlocks - 1, 0}, seq_len{2 * block_size};
    const std::vector<int64_t> out_begin{0};
    std::vector<int64_t> slots;
    for (const int32_t id : table) {
      for (int i = 0; i < block_size; ++i) slots.push_back(int64_t{id} * block_size + i);
    }
    const auto d_table = kvtest::upload(table, stream), d_len = kvtest::upload(seq_len, stream);
    const auto d_begin = kvtest::upload(out_begin, stream), d_slots = kvtest::upload(slots, stream);
    for (const Off off : kOffByOne) {
      CAPTURE(block_size);
      CAPTURE(off.k);
      CAPTURE(off.v);
      lesson03::PagedKvCache cache(kvtest::shape(kLayers, 3, 8), stream, kBlocks, block_size, 1);
      cache.fill(0, stream);
      const size_t bytes =
          static_cast<size_t>(cache.bytes_per_token() / kLayers / 2) * slots.size();
      const auto rows = kvtest::poisoned(bytes, stream, 0x3F);
      const auto k_out = kvtest::poisoned(bytes, stream, 0);
      const auto v_out = kvtest::poisoned(bytes, stream, 0);
      for (int layer = kLayers - 1; layer >= 0; --layer) {
        const auto blocks = off_by(cache.layer(layer), off.k, off.v, stream.device());
        lesson03::gather_kv({.cache = blocks,
                             .block_tables = d_table.as<const int32_t>(),
                             .seq_len = d_len.as<const int32_t>(),
                             .out_begin = d_begin.as<const int64_t>(),
                             .max_blocks_per_seq = 2,
                             .num_seqs = 1,
                             .max_seq_len = 2 * block_size,
                             .k_out = k_out.data(),
                             .v_out = v_out.data()},
                            stream);
        CHECK((has_nan(k_out, stream) || has_nan(v_out, stream)) != off.right());
        lesson03::write_kv({.k = rows.data(),
                            .v = rows.data(),
                            .slot_mapping = d_slots.as<const int64_t>(),
                            .num_rows = static_cast<int>(slots.size()),
                            .cache = blocks},
                           stream);
        CHECK(touched_guard(cache, stream).empty() == off.right());
      }
    }
  }
}

/// A prompt in two chunks and three steps of a model, its K and V in small blocks: guards between
/// the blocks change no logit and stay as they are.
template <class Attention>
void check_model_in_debug_pool(kv::Model& model) {
  const std::vector<int32_t> tokens{5, 300, 77, 12, 9, 41, 8, 120, 6, 30, 31, 7, 200, 15};
  const auto logits_with = [&](int guard_rows) {
    lesson03::PagedKvCache cache(model.config(), model.stream(), 4, 4, guard_rows);
    cache.fill(0xFF, model.stream());
    Attention attention(model.config(), cache);
    lesson03::BlockTable table(4);
    table.extend(14, std::vector<int32_t>{3, 0, 2, 1});
    std::vector<float> all;
    int computed = 0;
    for (const int known : {4, 11, 12, 13, 14}) {
      kv::PassRows rows;
      rows.add(0, std::span(tokens).first(static_cast<size_t>(known)), computed);
      attention.set_tables({&table});
      const auto logits = model.forward(rows, attention);
      all.insert(all.end(), logits.begin(), logits.end());
      computed = known;
    }
    CHECK(touched_guard(cache, model.stream()) == "");
    return all;
  };
  const auto bits = [](float x) { return std::bit_cast<uint32_t>(x); };
  const std::vector<float> want = logits_with(0);
  CHECK_FALSE(std::isnan(want.back()));
  CHECK(std::ranges::equal(logits_with(2), want, {}, bits, bits));
}

}  // namespace lesson03_test
