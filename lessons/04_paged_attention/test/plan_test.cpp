// How the CUDA twin of paged_attention cuts its work: plain arithmetic, tested without a GPU.

#include <doctest/doctest.h>

#include "paged_plan.h"

namespace {

using lesson04::PagedPlan;

PagedPlan plan_of(int num_seqs, int rows_per_seq, int max_seq_len, int num_heads = 16) {
  lesson04::PagedAttentionArgs args;
  args.cache = {.num_blocks = 1, .block_size = 16, .num_kv_heads = 8, .head_dim = 128};
  args.num_seqs = num_seqs;
  args.num_rows = num_seqs * rows_per_seq;
  args.max_rows_per_seq = rows_per_seq;
  args.max_seq_len = max_seq_len;
  args.num_heads = num_heads;
  return PagedPlan(args);
}

}  // namespace

TEST_CASE("plan: little work is spread, much is streamed, many queries go through tiles") {
  CHECK(plan_of(1, 1, 4000).kernel == PagedPlan::Kernel::kSpread);  // 8 x 16 groups
  CHECK(plan_of(1, 1, 5120).kernel == PagedPlan::Kernel::kStream);  // 8 x 20
  CHECK(plan_of(64, 1, 256).kernel == PagedPlan::Kernel::kStream);  // 512 x 1
  CHECK(plan_of(1, 32, 100).kernel == PagedPlan::Kernel::kSpread);  // 64 pairs
  CHECK(plan_of(64, 33, 4000).kernel == PagedPlan::Kernel::kMany);  // 66 pairs
}

TEST_CASE("plan: up to 8 pairs of a sequence take half an operand") {
  CHECK(plan_of(64, 1, 4096).pairs_per_block == 8);
  CHECK(plan_of(64, 4, 4096).pairs_per_block == 8);
  CHECK(plan_of(64, 5, 4096).pairs_per_block == 16);
  CHECK(plan_of(64, 1, 4096, 128).pairs_per_block == 16);
  CHECK(plan_of(64, 9, 4096).blocks_per_seq == 2);
  CHECK(plan_of(64, 9, 4096).num_blocks == 64 * 2 * 8);
}

TEST_CASE("plan: a little more than one wave is made one") {
  CHECK(plan_of(1, 1, 24 * 1024).groups_per_run == 1);  // 768 groups
  CHECK(plan_of(1, 1, 32 * 1024).groups_per_run == 2);  // 1,024
  CHECK(plan_of(64, 1, 4096).groups_per_run == 1);      // 8,192
}

TEST_CASE("plan: workspace is needed from the second group of keys on") {
  CHECK(plan_of(64, 1, 256).workspace_bytes(128) == 0);
  CHECK(plan_of(64, 1, 257).workspace_bytes(128) > 0);
  CHECK(plan_of(64, 33, 4000).workspace_bytes(128) == 0);
}
