#pragma once

// The books checked from the other side: who holds each block, counted from the tables.

#include <cstdint>
#include <vector>

#include "lessons/03_paged_blocks/block_table.h"

namespace lesson05 {

/// For check() of every manager that shares blocks, and for nothing else: it is slow and simple.
class Holders {
 public:
  /// For blocks 0 .. num_ids - 1.
  explicit Holders(int num_ids) : holders_(static_cast<size_t>(num_ids), 0) {}

  /// Throws std::logic_error, naming the sequence, unless the table has just the blocks that its
  /// tokens fill; std::out_of_range for a block that is not there.
  void add(int64_t seq, const lesson03::BlockTable& table);
  /// Throws std::logic_error, naming the block, unless so many tables hold it.
  void check(int32_t id, int ref_cnt) const;

  int num_held() const;            // blocks that a table holds
  int64_t num_references() const;  // from all tables

 private:
  std::vector<int> holders_;
};

}  // namespace lesson05
