#pragma once

// The queries of a pass, for attention over K and V in any layout.

#include <cstdint>

namespace kv::attention {

struct Queries {
  const void* q = nullptr;  // [num_rows, num_heads, head_dim], activation dtype
  void* out = nullptr;      // [num_rows, num_heads, head_dim]
  /// Sequence i of the pass has the query rows first_row[i] .. first_row[i + 1] - 1. They are its
  /// last tokens: row first_row[i + 1] - 1 is token seq_len[i] - 1. On the stream's device.
  const int32_t* first_row = nullptr;  // [num_seqs + 1]
  /// [num_seqs]; null means that a sequence is its rows of this pass.
  const int32_t* seq_len = nullptr;
  int num_seqs = 0;
  int num_rows = 0;
  int max_rows_per_seq = 0;  // most query rows of one sequence (sizes the grid)
  int max_seq_len = 0;  // an upper bound of seq_len (sizes the grid; the same bits for any bound)
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int window = 0;  // keys that a query sees at most, its own included; 0 means no limit

  /// Most pairs (query, head) of a sequence that share a KV head.
  int64_t max_pairs() const { return int64_t{max_rows_per_seq} * (num_heads / num_kv_heads); }
};

/// Takes the queries out of a lesson's arguments, which also say where its K and V are. The number
/// of KV heads is a member of the arguments or of their `cache`.
template <class Args>
Queries queries_of(const Args& args) {
  const auto& keys = [&]() -> const auto& {
    if constexpr (requires { args.cache; }) {
      return args.cache;
    } else {
      return args;
    }
  }
  ();
  Queries queries{.q = args.q,
                  .out = args.out,
                  .first_row = args.first_row,
                  .num_seqs = args.num_seqs,
                  .num_rows = args.num_rows,
                  .max_rows_per_seq = args.max_seq_len,
                  .max_seq_len = args.max_seq_len,
                  .num_heads = args.num_heads,
                  .num_kv_heads = keys.num_kv_heads,
                  .head_dim = keys.head_dim,
                  .window = args.window};
  if (args.window >= args.max_seq_len) queries.window = 0;  // it hides nothing
  if constexpr (requires { args.seq_len; }) {  // else a sequence is its rows of this pass
    queries.seq_len = args.seq_len;
    queries.max_rows_per_seq = args.max_rows_per_seq;
  }
  return queries;
}

}  // namespace kv::attention
