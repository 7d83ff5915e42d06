#pragma once

// The slots of rows: three sequences that can be checked by eye, and many by chance. For any
// device.

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "lessons/03_paged_blocks/paged_attention_base.h"
#include "lessons/08_scheduler/compute_slot_mapping.h"
#include "tests/support/readable.h"

struct SlotsCase {
  static constexpr int kWidth = 700;  // of a table
  kv::PassRows rows;
  std::vector<int32_t> tables;
  std::vector<int64_t> slots;  // as the host works them out

  SlotsCase(int num_seqs, int block_size, std::mt19937& rng) {
    std::vector<lesson03::BlockTable> made;
    lesson03::BlockTables sequences;
    made.reserve(static_cast<size_t>(num_seqs));
    for (int i = 0; i < num_seqs; ++i) {
      const int length = 1 + static_cast<int>(rng() % 600);
      lesson03::BlockTable& table = made.emplace_back(block_size);
      std::vector<int32_t> ids(static_cast<size_t>(table.blocks_to_extend(length)));
      for (int32_t& id : ids) id = static_cast<int32_t>(rng() % 2'000'000'000);
      table.extend(length, ids);
      const int new_rows =
          i % 3 == 0 ? 1 : 1 + static_cast<int>(rng() % static_cast<unsigned>(length));
      rows.add(0, std::vector<int32_t>(static_cast<size_t>(length)), length - new_rows);
      sequences.push_back(&table);
    }
    tables = lesson03::pack_block_tables(rows, sequences, kWidth);
    slots = lesson03::slot_mapping_of(rows, sequences);
  }
};

/// What the device works out. `fill_tables` puts the tables onto the stream's device last of all,
/// and returns their address.
template <class FillTables>
std::vector<int64_t> slots_after(const kv::Stream& stream, FillTables fill_tables,
                                 const std::vector<int32_t>& first_row,
                                 const std::vector<int32_t>& seq_len, int width, int block_size) {
  const auto first = kv::to_device<int32_t>(first_row, stream);
  const auto lengths = kv::to_device<int32_t>(seq_len, stream);
  std::vector<int64_t> slots(static_cast<size_t>(first_row.back()) + 1, -7);  // one after them
  const auto out = kv::to_device<int64_t>(slots, stream);
  lesson08::compute_slot_mapping({.first_row = first.as<int32_t>(),
                                  .seq_len = lengths.as<int32_t>(),
                                  .block_tables = fill_tables(),
                                  .num_seqs = static_cast<int>(seq_len.size()),
                                  .num_rows = first_row.back(),
                                  .max_blocks_per_seq = width,
                                  .block_size = block_size,
                                  .slot_mapping = out.as<int64_t>()},
                                 stream);
  kv::copy_to_host(slots.data(), out.data(), slots.size() * sizeof(int64_t), stream);
  CHECK(slots.back() == -7);  // nothing is written after the last row
  slots.pop_back();
  return slots;
}

inline std::vector<int64_t> slots_on(kv::Device device, const std::vector<int32_t>& first_row,
                                     const std::vector<int32_t>& seq_len,
                                     const std::vector<int32_t>& tables, int width,
                                     int block_size) {
  const kv::Stream stream(device);
  const auto table = kv::to_device<int32_t>(tables, stream);
  const auto filled = [&] { return table.as<const int32_t>(); };
  return slots_after(stream, filled, first_row, seq_len, width, block_size);
}

/// Blocks of 4. A: a prompt of 6 in blocks 7 and 2. B: a decode, its 9th token, the first in its
/// third block, 3. C: the 5th to the 7th token, in its second block, 6.
inline void check_three_slots(kv::Device device) {
  const std::vector<int32_t> tables{7, 2, 0, /* B */ 5, 1, 3, /* C */ 8, 6, 0};
  INFO("rows 0 to 5 are A's, row 6 is B's, rows 7 to 9 are C's");
  CHECK(slots_on(device, {0, 6, 7, 10}, {6, 9, 7}, tables, 3, 4) ==
        std::vector<int64_t>{28, 29, 30, 31, 8, 9, 12, 24, 25, 26});
}

/// Block 1,000,000,000 of 4 tokens: its first slot is past 2^31.
inline void check_large_slots(kv::Device device) {
  CHECK(slots_on(device, {0, 1}, {2}, {1'000'000'000}, 1, 4) ==
        std::vector<int64_t>{4'000'000'001});
}

inline void check_slots(kv::Device device, const std::vector<int>& nums_seqs) {
  std::mt19937 rng(1);
  for (const int block_size : {1, 2, 16, 256}) {
    for (const int num_seqs : nums_seqs) {
      CAPTURE(block_size);
      CAPTURE(num_seqs);
      const SlotsCase c(num_seqs, block_size, rng);
      CHECK(slots_on(device, c.rows.first_row, c.rows.seq_len, c.tables, SlotsCase::kWidth,
                     block_size) == c.slots);
    }
  }
}
