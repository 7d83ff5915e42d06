#pragma once

// The loop round the plain CPU kernels of attention.

#include <cstdint>

#include "common/parallel.h"

namespace kv {

/// Calls attend_row(seq, row, head) for every query head of every row of a pass, on all threads.
/// Rows first_row[seq] .. first_row[seq + 1] - 1 are those of sequence seq. The order does not
/// matter: what a query gives depends on its own keys alone.
template <class AttendRow>
void each_query(const int32_t* first_row, int num_seqs, int num_heads,
                const AttendRow& attend_row) {
  parallel_for(int64_t{num_seqs} * num_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto seq = static_cast<int>(i / num_heads);
      const auto head = static_cast<int>(i % num_heads);
      for (int row = first_row[seq]; row < first_row[seq + 1]; ++row) attend_row(seq, row, head);
    }
  });
}

}  // namespace kv
