#pragma once

// The part of a pass that each CTA of kernels/hopper/runs/run_queries.cuh takes, without the
// work.

#include "common/device.h"
#include "kernels/attention/queries.h"

namespace kernels_test {

/// Groups begin .. end - 1 of a sequence, and what is said of all its pieces.
struct PieceOfCta {
  int cta, seq, begin, end, num_pieces, first_groups;
};

/// Writes the pieces of all CTAs, in any order, and adds their number to *count.
void find_pieces(const kv::attention::Queries& queries, int num_ctas, PieceOfCta* pieces,
                 int* count, const kv::Stream& stream);

}  // namespace kernels_test
