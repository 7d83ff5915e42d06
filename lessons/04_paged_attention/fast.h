#pragma once

#include "kernels/attention/attend.h"
#include "paged_attention.h"

namespace lesson04 {

/// Where tokens first .. first + num_tokens - 1 of a sequence lie, by its block table. At most
/// kv::attention::kTileTokens tokens.
void find_paged_rows(const PagedAttentionArgs& args, int seq, int kv_head, int first,
                     int num_tokens, kv::attention::TileRows& rows);

}  // namespace lesson04
