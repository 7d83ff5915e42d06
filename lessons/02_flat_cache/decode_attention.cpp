// The CPU twins. The plain one is the specification: lesson 01's loop over the keys. Only the place
// of a key's row is different.

#include "decode_attention.h"

#include <cmath>

#include "kernels/attention/attend.h"
#include "kernels/attention/plan.h"
#include "kernels/each_query.h"
#include "lessons/01_no_cache/causal_attention.h"

namespace lesson02 {

using kv::attention::first_key;
using lesson01::add_key;
using lesson01::OnlineSoftmax;
using lesson01::score_of;

namespace {

/// One query: head `head` of row `row`. It sees the keys of its own token and of those before it.
void attend_row(const DecodeAttentionArgs& args, int seq, int row, int head) {
  const int head_dim = args.head_dim;
  // The sequence's last row is its last token; the row before it, the token before; and so on.
  const int position = args.seq_len[seq] - (args.first_row[seq + 1] - row);
  const int group = args.num_heads / args.num_kv_heads;  // GQA: query heads that share K and V
  const int kv_head = head / group;
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  const int64_t at = (int64_t{row} * args.num_heads + head) * head_dim;
  const float* q = static_cast<const float*>(args.q) + at;  // [head_dim]
  float* out = static_cast<float*>(args.out) + at;          // [head_dim]

  OnlineSoftmax sum{.m = -INFINITY, .l = 0.0f, .acc = {}};
  for (int key = first_key(position, args.window); key <= position; ++key) {
    const int64_t slot = args.slab_begin[seq] + key;
    const int64_t kv_at = (slot * args.num_kv_heads + kv_head) * head_dim;
    const float* k = static_cast<const float*>(args.k_cache) + kv_at;  // [head_dim]
    const float* v = static_cast<const float*>(args.v_cache) + kv_at;  // [head_dim]
    add_key(sum, score_of(q, k, head_dim, scale), v, head_dim);
  }
  for (int d = 0; d < head_dim; ++d) out[d] = sum.acc[d] / sum.l;
}

}  // namespace

void decode_attention_cpu(const DecodeAttentionArgs& args) {
  kv::each_query(args.first_row, args.num_seqs, args.num_heads,
                 [&](int seq, int row, int head) { attend_row(args, seq, row, head); });
}

void fast_decode_attention_cpu(const DecodeAttentionArgs& args) {
  kv::attention::attend_contiguous(kv::attention::queries_of(args), args.k_cache, args.v_cache,
                                   args.slab_begin);
}

size_t decode_attention_workspace_bytes(const DecodeAttentionArgs& args) {
  return kv::attention::Plan(kv::attention::queries_of(args)).workspace_bytes;
}

}  // namespace lesson02
