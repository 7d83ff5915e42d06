// The plain CPU twin, and the specification of causal attention. The CUDA twin beside it is made of
// the same pieces, in the same order: what attend_row() does here, a warp does there.

#include "causal_attention.h"

#include <algorithm>
#include <cmath>

#include "kernels/attention/attend.h"
#include "kernels/each_query.h"

namespace lesson01 {

using kv::attention::first_key;

float score_of(const float* q, const float* k, int head_dim, float scale) {
  float dot = 0.0f;
  for (int d = 0; d < head_dim; ++d) dot += q[d] * k[d];
  return dot * scale;
}

void add_key(OnlineSoftmax& sum, float score, const float* v, int head_dim) {
  const float m = std::max(sum.m, score);
  const float shrink = std::exp(sum.m - m);  // rescales sums made with the old m; 0 at first
  const float p = std::exp(score - m);
  sum.m = m;
  sum.l = sum.l * shrink + p;
  for (int d = 0; d < head_dim; ++d) sum.acc[d] = sum.acc[d] * shrink + p * v[d];
}

namespace {

/// One query: head `head` of row `row`. It sees the keys of its own token and of those before it.
void attend_row(const CausalAttentionArgs& args, int seq, int row, int head) {
  const int head_dim = args.head_dim;
  const int group = args.num_heads / args.num_kv_heads;  // GQA: query heads that share K and V
  const int kv_head = head / group;
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  const int64_t at = (int64_t{row} * args.num_heads + head) * head_dim;
  const float* q = static_cast<const float*>(args.q) + at;  // [head_dim]
  float* out = static_cast<float*>(args.out) + at;          // [head_dim]

  OnlineSoftmax sum{.m = -INFINITY, .l = 0.0f, .acc = {}};
  const int begin = args.first_row[seq];
  for (int key = begin + first_key(row - begin, args.window); key <= row; ++key) {
    const int64_t kv_at = (int64_t{key} * args.num_kv_heads + kv_head) * head_dim;
    const float* k = static_cast<const float*>(args.k) + kv_at;  // [head_dim]
    const float* v = static_cast<const float*>(args.v) + kv_at;  // [head_dim]
    add_key(sum, score_of(q, k, head_dim, scale), v, head_dim);
  }
  for (int d = 0; d < head_dim; ++d) out[d] = sum.acc[d] / sum.l;
}

}  // namespace

void causal_attention_cpu(const CausalAttentionArgs& args) {
  kv::each_query(args.first_row, args.num_seqs, args.num_heads,
                 [&](int seq, int row, int head) { attend_row(args, seq, row, head); });
}

void fast_causal_attention_cpu(const CausalAttentionArgs& args) {
  kv::attention::attend_contiguous(kv::attention::queries_of(args), args.k, args.v, args.first_row);
}

}  // namespace lesson01
