#pragma once

// The slots of rows: three sequences that can be checked by eye, and many by chance. For any
// device.

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "lessons/03_paged_blocks/block_table.h"
#include "slots_on.h"

struct SlotsCase {
  static constexpr int kWidth = 700;  // of a table
  kv::PassRows rows;
  std::vector<int32_t> tables;
  std::vector<int64_t> slots;  // as the host works them out

  SlotsCase(int num_seqs, int block_size, std::mt19937& rng) {
    std::vector<lesson03::BlockTable> made;
    lesson03::BlockTables sequences;
    made.reserve(num_seqs);
    for (int i = 0; i < num_seqs; ++i) {
      const int length = 1 + static_cast<int>(rng() % 600);
      lesson03::BlockTable& table = made.emplace_back(block_size);
      for (int32_t& id : table.extend(length)) id = static_cast<int32_t>(rng() % 2'000'000'000);
      const int new_rows =
          i % 3 == 0 ? 1 : 1 + static_cast<int>(rng() % static_cast<unsigned>(length));
      rows.add(0, std::vector<int32_t>(length), length - new_rows);
      sequences.push_back(&table);
    }
    tables = lesson03::pack_block_tables(rows, sequences, kWidth);
    slots = lesson03::slot_mapping_of(rows, sequences);
  }
};

/// Blocks of 4. A: a prompt of 6 in blocks 7 and 2. B: a decode, its 9th token, the first in its
/// third block, 3. C: the 5th to the 7th token, in its second block, 6.
inline SlotsInput three_sequences() {
  return {.first_row = {0, 6, 7, 10},
          .seq_len = {6, 9, 7},
          .tables = {7, 2, 0, 0, /* B */ 5, 1, 3, 0, /* C */ 8, 6, 0, 0},
          .width = 4,
          .block_size = 4};
}
inline const std::vector<int64_t> kThreeSlots{28, 29, 30, 31, 8, 9, 12, 24, 25, 26};

inline void check_three_slots(kv::Device device) {
  INFO("rows 0 to 5 are A's, row 6 is B's, rows 7 to 9 are C's");
  CHECK(slots_on(device, three_sequences(), 10, lesson08::compute_slot_mapping) == kThreeSlots);
}

/// Block 1,000,000,000 of 4 tokens: its first slot is past 2^31. And the third of tables of 2^30
/// entries, the only one that has memory.
inline void check_large_slots(kv::Device device) {
  CHECK(slots_on(device,
                 {.first_row = {0, 1},
                  .seq_len = {2},
                  .tables = {1'000'000'000},
                  .width = 1,
                  .block_size = 4},
                 1, lesson08::compute_slot_mapping) == std::vector<int64_t>{4'000'000'001});
  CHECK(slots_on(device,
                 {.first_row = {0, 0, 0, 1},
                  .seq_len = {0, 0, 1},
                  .tables = {5},
                  .width = 1 << 30,
                  .block_size = 4,
                  .absent = int64_t{1} << 31},
                 1, lesson08::compute_slot_mapping) == std::vector<int64_t>{20});
}

inline void check_slots(kv::Device device, const std::vector<int>& nums_seqs) {
  std::mt19937 rng(1);
  for (const int block_size : {1, 2, 16, 256}) {
    for (const int num_seqs : nums_seqs) {
      CAPTURE(block_size);
      CAPTURE(num_seqs);
      const SlotsCase c(num_seqs, block_size, rng);
      CHECK(slots_on(device,
                     {c.rows.first_row, c.rows.seq_len, c.tables, SlotsCase::kWidth, block_size},
                     c.rows.num_rows(), lesson08::compute_slot_mapping) == c.slots);
    }
  }
}
