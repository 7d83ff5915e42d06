#pragma once

// What every Attention over blocks has in common: it is told which rows the next pass has.

#include <cstdint>
#include <span>

#include "common/model/attention.h"
#include "slot_mapping.h"

namespace lesson03 {

class PagedAttentionBase : public kv::Attention {
 public:
  /// Says what the rows of the next pass are, one sequence after the other: the last num_rows
  /// tokens of each table. The tables have room for them already, and are not needed after this
  /// call.
  virtual void begin_pass(std::span<const PagedRows> sequences) = 0;
  /// Bytes of K and V that were moved, so far, for no reason but where they lay.
  virtual int64_t kv_bytes_copied() const { return 0; }
};

}  // namespace lesson03
