#pragma once

#include "decode_attention.h"
#include "kernels/attention/queries.h"

namespace lesson02 {

/// The arguments as kernels/attention takes them.
inline kv::attention::Queries queries_of(const DecodeAttentionArgs& args) {
  return {.q = args.q,
          .out = args.out,
          .first_row = args.first_row,
          .seq_len = args.seq_len,
          .num_seqs = args.num_seqs,
          .num_rows = args.num_rows,
          .max_rows_per_seq = args.max_rows_per_seq,
          .max_seq_len = args.max_seq_len,
          .num_heads = args.num_heads,
          .num_kv_heads = args.num_kv_heads,
          .head_dim = args.head_dim};
}

}  // namespace lesson02
