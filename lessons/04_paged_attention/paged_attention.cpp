// The plain CPU twin, which is the specification of paged attention: what attend_row() does here, a
// warp of the CUDA twin does in the same order. Two things are new since lesson 02. The block table
// says where a key's row is, and a key joins the earlier ones by a merge, the same operation by
// which the fast kernels join groups.

#include "paged_attention.h"

#include <algorithm>
#include <cmath>

#include "kernels/each_query.h"
#include "lessons/01_no_cache/causal_attention.h"

namespace lesson04 {

using kv::attention::first_key;
using lesson01::score_of;
using lesson03::k_row;
using lesson03::v_row;

void merge(Partial& a, float m, float l, const float* acc, int head_dim) {
  const float larger = std::max(a.m, m);
  const float shrink_a = std::exp(a.m - larger);  // 0 as long as `a` has no key
  const float shrink = std::exp(m - larger);
  a.m = larger;
  a.l = a.l * shrink_a + l * shrink;
  for (int d = 0; d < head_dim; ++d) a.acc[d] = a.acc[d] * shrink_a + acc[d] * shrink;
}

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

  Partial so_far{};  // no key yet
  for (int key = first_key(position, args.window); key <= position; ++key) {
    const int32_t block_id = table[key / block_size];
    const int offset = key % block_size;
    const float* k = k_row<float>(args.cache, block_id, offset) + kv_head * head_dim;
    const float* v = v_row<float>(args.cache, block_id, offset) + kv_head * head_dim;
    merge(so_far, score_of(q, k, head_dim, scale), 1.0f, v, head_dim);
  }
  for (int d = 0; d < head_dim; ++d) out[d] = so_far.acc[d] / so_far.l;
}

}  // namespace

void paged_attention_cpu(const PagedAttentionArgs& args) {
  check_block_size(args.cache.block_size);
  kv::each_query(args.first_row, args.num_seqs, args.num_heads,
                 [&](int seq, int row, int head) { attend_row(args, seq, row, head); });
}

}  // namespace lesson04
