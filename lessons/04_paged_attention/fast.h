#pragma once

#include "kernels/attention/attend.h"
#include "paged_attention.h"

namespace lesson04 {

/// Finds the rows of K and V of a sequence's tokens first .. first + num_tokens - 1 through its
/// block table. A tile at most: num_tokens <= kv::attention::kTileTokens.
void find_paged_rows(const PagedAttentionArgs& args, int seq, int kv_head, int first,
                     int num_tokens, kv::attention::TileRows& rows);

}  // namespace lesson04
