#pragma once

// The pieces of fast_paged_attention_cpu, for whoever wants to see them one at a time.

#include "kernels/attention/attend.h"
#include "lessons/03_paged_blocks/kv_rows.h"
#include "paged_attention.h"

namespace lesson04 {

/// 1 / sqrt(head_dim).
float score_scale(const PagedAttentionArgs& args);

/// Query row `row` of the pass, which is one of sequence `seq`, and head `head`.
kv::attention::Query query_of(const PagedAttentionArgs& args, int seq, int row, int head);

/// A kv::attention::FindRows: where tokens first .. first + num_tokens - 1 of a sequence lie, by
/// its block table. At most kv::attention::kTileTokens tokens.
void find_paged_rows(const PagedAttentionArgs& args, int seq, int kv_head, int first,
                     int num_tokens, kv::attention::TileRows& rows);

}  // namespace lesson04
