#pragma once

// What works out slots, on tables that are there or that the kernel before writes. For any device,
// and for the tables of one group or (lesson 10) of several.

#include <doctest/doctest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "lessons/08_scheduler/compute_slot_mapping.h"
#include "tests/support/kv_shape.h"
#include "tests/support/readable.h"

/// What a pass brings along. tables: [num_seqs, width]
struct SlotsInput {
  std::vector<int32_t> first_row, seq_len, tables;
  int width = 1, block_size = 1;
};

/// The slots that `compute` works out, as many as `num_slots`. `fill_tables` puts the tables onto
/// the stream's device last of all, and returns their address.
template <class FillTables, class Compute>
std::vector<int64_t> slots_after(const kv::Stream& stream, FillTables fill_tables,
                                 const SlotsInput& in, int num_slots, Compute compute) {
  const auto first = kv::to_device<int32_t>(in.first_row, stream);
  const auto lengths = kv::to_device<int32_t>(in.seq_len, stream);
  std::vector<int64_t> slots(static_cast<size_t>(num_slots) + 1, -7);  // one after them
  const auto out = kv::to_device<int64_t>(slots, stream);
  const int32_t* const tables = fill_tables();
  compute(lesson08::ComputeSlotMappingArgs{.first_row = first.as<int32_t>(),
                                           .seq_len = lengths.as<int32_t>(),
                                           .block_tables = tables,
                                           .num_seqs = static_cast<int>(in.seq_len.size()),
                                           .num_rows = in.first_row.back(),
                                           .max_blocks_per_seq = in.width,
                                           .block_size = in.block_size,
                                           .slot_mapping = out.as<int64_t>()},
          stream);
  kv::copy_to_host(slots.data(), out.data(), slots.size() * sizeof(int64_t), stream);
  CHECK(slots.back() == -7);  // nothing is written after the last row
  slots.pop_back();
  return slots;
}

/// Of tables that are there.
template <class Compute>
std::vector<int64_t> slots_on(kv::Device device, const SlotsInput& in, int num_slots,
                              Compute compute) {
  const kv::Stream stream(device);
  const auto tables = kv::to_device<int32_t>(in.tables, stream);
  const auto there = [&] { return tables.as<const int32_t>(); };
  return slots_after(stream, there, in, num_slots, compute);
}

/// Of tables that lesson 03's kernel writes right before. It writes rows of K, and a row has the 16
/// bytes of a table of four blocks.
template <class Compute>
std::vector<int64_t> slots_after_kernel(const SlotsInput& in, int num_slots, Compute compute) {
  const kv::Stream stream(kv::Device::kCuda);
  std::vector<int64_t> rows(in.tables.size() / 4);
  std::iota(rows.begin(), rows.end(), 0);
  lesson03::PagedKvCache cache(kvtest::shape(1, 1, 8), stream, 1, static_cast<int>(rows.size()));
  cache.fill(0, stream);
  const auto tables = kv::to_device<int32_t>(in.tables, stream);
  const auto places = kv::to_device<int64_t>(rows, stream);
  const auto write_tables = [&] {
    lesson03::write_kv({.k = tables.data(),
                        .v = tables.data(),
                        .slot_mapping = places.as<const int64_t>(),
                        .num_rows = static_cast<int>(rows.size()),
                        .cache = cache.layer(0)},
                       stream);
    return static_cast<const int32_t*>(cache.layer(0).k);
  };
  return slots_after(stream, write_tables, in, num_slots, compute);
}
