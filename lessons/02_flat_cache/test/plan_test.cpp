// How the CUDA twin of decode_attention cuts its work: plain arithmetic, tested without a GPU.

#include <doctest/doctest.h>

#include "decode_plan.h"

namespace {

lesson02::DecodeAttentionArgs pass_of(int num_seqs, int rows_per_seq, int max_seq_len) {
  lesson02::DecodeAttentionArgs args;
  args.num_seqs = num_seqs;
  args.num_rows = num_seqs * rows_per_seq;
  args.max_rows_per_seq = rows_per_seq;
  args.max_seq_len = max_seq_len;
  args.num_heads = 16;
  args.num_kv_heads = 8;
  args.head_dim = 128;
  return args;
}

}  // namespace

TEST_CASE("plan: heads that share a KV head share a block of 16 pairs") {
  CHECK(lesson02::DecodePlan(pass_of(1, 1, 100)).blocks_per_seq == 1);
  CHECK(lesson02::DecodePlan(pass_of(1, 8, 100)).blocks_per_seq == 1);
  CHECK(lesson02::DecodePlan(pass_of(1, 9, 100)).blocks_per_seq == 2);
  CHECK(lesson02::DecodePlan(pass_of(3, 9, 100)).num_blocks == 3 * 2 * 8);
}

TEST_CASE("plan: up to 64 pairs are few queries and one more is many") {
  CHECK(lesson02::DecodePlan(pass_of(1, 32, 1000)).few_queries);
  CHECK_FALSE(lesson02::DecodePlan(pass_of(1, 33, 1000)).few_queries);
}

TEST_CASE("plan: with more blocks than counters the keys are not spread") {
  CHECK(lesson02::DecodePlan(pass_of(2048, 1, 1000)).few_queries);
  CHECK_FALSE(lesson02::DecodePlan(pass_of(2049, 1, 1000)).few_queries);
}

TEST_CASE("plan: workspace is needed from the second group of keys on") {
  CHECK(decode_attention_workspace_bytes(pass_of(4, 1, 1)) == 0);
  CHECK(decode_attention_workspace_bytes(pass_of(4, 1, 256)) == 0);
  // Counters; then for each of 4 x 8 blocks and 2 groups 16 pairs of 128 elements, m and l, in
  // fp32.
  CHECK(decode_attention_workspace_bytes(pass_of(4, 1, 257)) ==
        4 * 16384 + 4 * 8 * 2 * 16 * (128 + 2) * 4);
  CHECK(decode_attention_workspace_bytes(pass_of(4, 100, 1000)) == 0);  // many queries
}

TEST_CASE("plan: sizes past 2^31 are computed in 64 bits") {
  const size_t bytes = decode_attention_workspace_bytes(pass_of(2048, 1, 1 << 20));
  CHECK(bytes == size_t{4} * 16384 + size_t{2048} * 8 * 4096 * 16 * 130 * 4);
  CHECK_FALSE(lesson02::DecodePlan(pass_of(1, 1 << 30, 1 << 30)).few_queries);
}
