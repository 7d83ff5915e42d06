#pragma once

// What a pass tells the kernels about sequences that live in blocks, made on the host.

#include <cstdint>
#include <span>
#include <vector>

#include "block_table.h"

namespace lesson03 {

/// One sequence of a pass: its last num_rows tokens are this pass's rows. Its table has their slots
/// already.
struct PagedRows {
  const BlockTable* table = nullptr;
  int num_rows = 0;
};

/// Slots of all rows of a pass, sequence after sequence: [num_rows].
std::vector<int64_t> slot_mapping_of(std::span<const PagedRows> sequences);

/// The tables side by side, each padded with -1 to max_blocks entries: [sequences, max_blocks].
/// Throws std::invalid_argument if one is longer.
std::vector<int32_t> pack_block_tables(std::span<const PagedRows> sequences, int max_blocks);
/// The same, behind what `out` has already.
void pack_block_tables(std::span<const PagedRows> sequences, int max_blocks,
                       std::vector<int32_t>& out);

}  // namespace lesson03
