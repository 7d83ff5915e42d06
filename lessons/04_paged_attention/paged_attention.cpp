// The plain CPU twin, and the specification of paged attention. The CUDA twin beside it takes the
// same steps in the same order: what attend_row() does here, a warp does there. Against lesson 02
// one thing has changed: the block table says where the row of a key is.

#include "paged_attention.h"

#include <algorithm>
#include <cmath>

#include "kernels/attention/contract.h"
#include "kernels/each_query.h"
#include "lessons/03_paged_blocks/kv_blocks.h"

namespace lesson04 {

using kv::attention::kMaxHeadDim;
using lesson03::k_row;
using lesson03::v_row;

namespace {

/// One query: head `head` of row `row`. It sees the keys of its own token and of those before it.
void attend_row(const PagedAttentionArgs& args, int seq, int row, int head) {
  const int head_dim = args.cache.head_dim;
  const int block_size = args.cache.block_size;
  const int32_t* table = args.block_tables + int64_t{seq} * args.max_blocks_per_seq;
  // The sequence's last row is its last token; the row before it, the token before; and so on.
  const int position = args.seq_len[seq] - (args.first_row[seq + 1] - row);
  const int kv_head = head / (args.num_heads / args.cache.num_kv_heads);  // GQA: heads share K, V
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  const int64_t at = (int64_t{row} * args.num_heads + head) * head_dim;
  const float* q = static_cast<const float*>(args.q) + at;  // [head_dim]
  float* out = static_cast<float*>(args.out) + at;          // [head_dim]

  float m = -INFINITY;          // largest score so far
  float l = 0.0f;               // sum of exp(score - m)
  float acc[kMaxHeadDim] = {};  // sum of exp(score - m) * v, [head_dim]
  for (int key = 0; key <= position; ++key) {
    const int32_t block_id = table[key / block_size];
    const int offset = key % block_size;
    const float* k = k_row<float>(args.cache, block_id, offset) + kv_head * head_dim;
    const float* v = v_row<float>(args.cache, block_id, offset) + kv_head * head_dim;

    float dot = 0.0f;
    for (int d = 0; d < head_dim; ++d) dot += q[d] * k[d];
    const float score = dot * scale;

    const float new_m = std::max(m, score);
    const float shrink = std::exp(m - new_m);  // of what was summed with the old m; 0 at first
    const float p = std::exp(score - new_m);
    m = new_m;
    l = l * shrink + p;
    for (int d = 0; d < head_dim; ++d) acc[d] = acc[d] * shrink + p * v[d];
  }
  for (int d = 0; d < head_dim; ++d) out[d] = acc[d] / l;
}

}  // namespace

void paged_attention_cpu(const PagedAttentionArgs& args) {
  check_block_size(args.cache.block_size);
  kv::each_query(args.first_row, args.num_seqs, args.num_heads,
                 [&](int seq, int row, int head) { attend_row(args, seq, row, head); });
}

}  // namespace lesson04
