#pragma once

#include "kernels/attention/attend.h"
#include "paged_attention.h"

namespace lesson04 {

/// The arguments as kernels/attention takes them.
inline kv::attention::Queries queries_of(const PagedAttentionArgs& args) {
  return {.q = args.q,
          .out = args.out,
          .first_row = args.first_row,
          .seq_len = args.seq_len,
          .num_seqs = args.num_seqs,
          .num_rows = args.num_rows,
          .max_rows_per_seq = args.max_rows_per_seq,
          .max_seq_len = args.max_seq_len,
          .num_heads = args.num_heads,
          .num_kv_heads = args.cache.num_kv_heads,
          .head_dim = args.cache.head_dim};
}

/// Where tokens first .. first + num_tokens - 1 of a sequence lie, by its block table. At most
/// kv::attention::kTileTokens tokens.
void find_paged_rows(const PagedAttentionArgs& args, int seq, int kv_head, int first,
                     int num_tokens, kv::attention::TileRows& rows);

}  // namespace lesson04
