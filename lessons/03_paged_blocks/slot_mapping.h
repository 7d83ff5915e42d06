#pragma once

// What a pass tells the kernels about sequences that live in blocks, made on the host.

#include <cstdint>
#include <vector>

#include "block_table.h"
#include "common/model/pass.h"

namespace lesson03 {

/// The tables of a pass's sequences, in their order.
using BlockTables = std::vector<const BlockTable*>;

/// Slots of all rows of a pass: [num_rows]. Throws std::out_of_range for a row that has none.
std::vector<int64_t> slot_mapping_of(const kv::PassRows& rows, const BlockTables& tables);

/// The blocks of each sequence's seq_len tokens, side by side, padded with -1 to `width` entries:
/// [num_seqs, width]. Throws std::invalid_argument if that is too narrow, or there is not a table
/// for each sequence with so many blocks.
std::vector<int32_t> pack_block_tables(const kv::PassRows& rows, const BlockTables& tables,
                                       int width);

}  // namespace lesson03
