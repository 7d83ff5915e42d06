#pragma once

#include "kernels/attention/attend.h"
#include "kernels/qk_norm_rope.h"
#include "paged_attention.h"

namespace lesson04 {

/// Finds the rows of K and V of a sequence's tokens first .. first + num_tokens - 1 through its
/// block table. A tile at most: num_tokens <= kv::attention::kTileTokens.
void find_paged_rows(const PagedAttentionArgs& args, int seq, int kv_head, int first,
                     int num_tokens, kv::attention::TileRows& rows);

/// Does the new rows' norm, rotation and write_kv in one launch: q goes to heads.q, K and V into
/// the blocks. CUDA only, and only for passes that kv::attention::serves_new_heads() accepts.
void write_new_heads_cuda(const kv::QkNormRopeArgs& heads, const PagedAttentionArgs& args,
                          const kv::Stream& stream);

}  // namespace lesson04
