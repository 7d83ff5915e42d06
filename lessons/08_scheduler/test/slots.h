#pragma once

// Sequences with tables by chance, and the slots of their rows.

#include <cstdint>
#include <random>
#include <vector>

#include "lessons/03_paged_blocks/paged_attention_base.h"

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
