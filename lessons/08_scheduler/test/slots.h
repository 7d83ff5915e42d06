#pragma once

// Sequences with tables by chance, and the slots of their rows. For any device.

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "lessons/03_paged_blocks/paged_attention_base.h"
#include "lessons/08_scheduler/compute_slot_mapping.h"

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

inline void check_slots(kv::Device device) {
  const kv::Stream stream(device);
  std::mt19937 rng(1);
  for (const int block_size : {1, 2, 16, 256}) {
    for (const int num_seqs : {0, 1, 2, 3, 7, 20, 64, 300}) {
      CAPTURE(block_size);
      CAPTURE(num_seqs);
      const SlotsCase c(num_seqs, block_size, rng);
      const auto first_row = kv::to_device<int32_t>(c.rows.first_row, stream);
      const auto seq_len = kv::to_device<int32_t>(c.rows.seq_len, stream);
      const auto tables = kv::to_device<int32_t>(c.tables, stream);
      std::vector<int64_t> slots(c.slots.size() + 1, -7);  // and one after them
      const auto out = kv::to_device<int64_t>(slots, stream);
      lesson08::compute_slot_mapping({.first_row = first_row.as<int32_t>(),
                                      .seq_len = seq_len.as<int32_t>(),
                                      .block_tables = tables.as<int32_t>(),
                                      .num_seqs = num_seqs,
                                      .num_rows = c.rows.first_row.back(),
                                      .max_blocks_per_seq = SlotsCase::kWidth,
                                      .block_size = block_size,
                                      .slot_mapping = out.as<int64_t>()},
                                     stream);
      kv::copy_to_host(slots.data(), out.data(), slots.size() * sizeof(int64_t), stream);
      CHECK(slots.back() == -7);
      slots.pop_back();
      CHECK(slots == c.slots);
    }
  }
}
