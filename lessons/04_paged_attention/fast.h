#pragma once

#include "kernels/attention/attend.h"
#include "kernels/qk_norm_rope.h"
#include "paged_attention.h"

namespace lesson04 {

/// Finds the rows of tokens first .. first + num_tokens - 1 of a sequence through its block table.
/// At most kv::attention::kTileTokens tokens.
void find_paged_rows(const PagedAttentionArgs& args, int seq, int kv_head, int first,
                     int num_tokens, kv::attention::TileRows& rows);

/// Runs the rows' norm and rotation and write_kv as one launch, for passes with
/// kv::attention::serves_new_heads(). CUDA only. Writes q to heads.q, K and V into the blocks.
void write_new_heads_cuda(const kv::QkNormRopeArgs& heads, const PagedAttentionArgs& args,
                          const kv::Stream& stream);

}  // namespace lesson04
