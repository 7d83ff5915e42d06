// The plain CPU twin, and the specification: lesson 04's, but for the lines that decode a key.

#include "fp8_attention.h"

#include <cmath>

#include "e4m3.h"
#include "kernels/each_query.h"
#include "lessons/01_no_cache/causal_attention.h"
#include "write_kv_fp8.h"

namespace lesson14 {
namespace {

void decode_head(const Fp8Head& head, int head_dim, float* out) {
  for (int d = 0; d < head_dim; ++d) out[d] = decode(head.codes[d], exponent_of(*head.scale));
}

/// One query: head `head` of row `row`. It sees the keys of its own token and of those before it.
void attend_row(const Fp8AttentionArgs& args, int seq, int row, int head) {
  const Fp8Blocks cache = args.pages();
  const int head_dim = cache.head_dim;
  const int32_t* table = args.block_tables + int64_t{seq} * args.max_blocks_per_seq;
  const int position = args.seq_len[seq] - (args.first_row[seq + 1] - row);
  const int kv_head = head / (args.num_heads / cache.num_kv_heads);
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  const int64_t at = (int64_t{row} * args.num_heads + head) * head_dim;
  const float* q = static_cast<const float*>(args.q) + at;
  float* out = static_cast<float*>(args.out) + at;

  float k[kv::attention::kMaxHeadDim], v[kv::attention::kMaxHeadDim];
  kv::attention::Partial so_far{};  // no key yet
  for (int key = kv::attention::first_key(position, args.window); key <= position; ++key) {
    const int32_t block_id = table[key / cache.block_size];
    const int offset = key % cache.block_size;
    decode_head(fp8_head(cache, true, block_id, offset, kv_head), head_dim, k);
    decode_head(fp8_head(cache, false, block_id, offset, kv_head), head_dim, v);
    lesson04::merge(so_far, lesson01::score_of(q, k, head_dim, scale), 1.0f, v, head_dim);
  }
  for (int d = 0; d < head_dim; ++d) out[d] = so_far.acc[d] / so_far.l;
}

}  // namespace

void fp8_attention_cpu(const Fp8AttentionArgs& args) {
  lesson04::check_block_size(args.cache.block_size);
  kv::each_query(args.first_row, args.num_seqs, args.num_heads,
                 [&](int seq, int row, int head) { attend_row(args, seq, row, head); });
}

}  // namespace lesson14
