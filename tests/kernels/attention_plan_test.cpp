// How the CUDA kernels of attention share a pass: plain arithmetic, tested without a GPU.

#include <doctest/doctest.h>

#include <initializer_list>
#include <utility>

#include "kernels/hopper/plan.h"

namespace {

using kv::attention::Plan;
using kv::attention::Queries;
using Path = Plan::Path;
using kv::hopper::path_of;
using OnHopper = kv::hopper::Path;

Queries queries_of(int num_seqs, int rows_per_seq, int max_seq_len, int num_heads = 16) {
  return {.num_seqs = num_seqs,
          .num_rows = num_seqs * rows_per_seq,
          .max_rows_per_seq = rows_per_seq,
          .max_seq_len = max_seq_len,
          .num_heads = num_heads,
          .num_kv_heads = 8,
          .head_dim = 128};
}

Plan plan_of(int num_seqs, int rows_per_seq, int max_seq_len, int num_heads = 16) {
  return Plan(queries_of(num_seqs, rows_per_seq, max_seq_len, num_heads));
}

/// The path on Hopper, over blocks of this size in bf16.
OnHopper on_hopper(const Queries& queries, int block_size = 16) {
  return path_of(queries, Plan(queries), block_size);
}
OnHopper on_hopper(int num_seqs, int rows_per_seq, int max_seq_len) {
  return on_hopper(queries_of(num_seqs, rows_per_seq, max_seq_len));
}

}  // namespace

TEST_CASE("attention plan: little work is spread, much streamed, many queries walk over tiles") {
  CHECK(plan_of(1, 1, 4000).path == Path::kSpread);  // 8 x 16 groups
  CHECK(plan_of(1, 1, 5120).path == Path::kStream);  // 8 x 20
  CHECK(plan_of(64, 1, 256).path == Path::kStream);  // 512 x 1
  CHECK(plan_of(1, 32, 100).path == Path::kSpread);  // 64 pairs
  CHECK(plan_of(64, 33, 4000).path == Path::kMany);  // 66 pairs
  CHECK(plan_of(1, 1 << 30, 1 << 30).path == Path::kMany);
}

TEST_CASE("attention plan: heads that share a KV head share a block of 16 pairs") {
  CHECK(plan_of(1, 1, 100).blocks_per_seq == 1);
  CHECK(plan_of(1, 8, 100).blocks_per_seq == 1);
  CHECK(plan_of(1, 9, 100).blocks_per_seq == 2);
  CHECK(plan_of(3, 9, 100).num_blocks == 3 * 2 * 8);
}

TEST_CASE("attention plan: up to 8 pairs of a sequence stream through half an operand") {
  CHECK(plan_of(64, 1, 4096).pairs_per_block == 8);
  CHECK(plan_of(64, 4, 4096).pairs_per_block == 8);
  CHECK(plan_of(64, 5, 4096).pairs_per_block == 16);
  CHECK(plan_of(64, 1, 4096, 128).pairs_per_block == 16);
  CHECK(plan_of(64, 9, 4096).blocks_per_seq == 2);
  CHECK(plan_of(64, 9, 4096).num_blocks == 64 * 2 * 8);
  CHECK(plan_of(1, 1, 100).pairs_per_block == 16);  // spread
}

TEST_CASE("attention plan: every block of pairs that is spread has a counter") {
  for (const int num_seqs : {1, 3, 7, 10, 19, 20}) {
    for (const int rows : {1, 4, 5, 8, 9, 32}) {
      for (const int tokens : {1, 256, 257, 1000, 5119}) {
        const Plan plan = plan_of(num_seqs, rows, tokens);
        if (plan.path == Path::kSpread) {
          CHECK(plan.num_blocks <= kv::attention::kWorkspaceCounters);
        }
      }
    }
  }
}

TEST_CASE("attention plan: on Hopper large batches and long sequences are cut into runs") {
  CHECK(on_hopper(64, 1, 4096) == OnHopper::kRuns);
  CHECK(on_hopper(16, 4, 4096) == OnHopper::kRuns);  // 8 pairs
  CHECK(on_hopper(16, 5, 4096) == OnHopper::kNone);  // 10
  CHECK(on_hopper(64, 1, 256) == OnHopper::kNone);   // 64 groups for 132 SMs
  CHECK(on_hopper(2048, 1, 4096) == OnHopper::kRuns);
  CHECK(on_hopper(2049, 1, 4096) == OnHopper::kNone);  // more KV heads than counters
  CHECK(on_hopper(queries_of(64, 1, 4096), 8) == OnHopper::kNone);
  Queries many_heads = queries_of(1, 1, 4096, 1064);
  many_heads.num_kv_heads = 1064;  // more than CTAs
  CHECK(on_hopper(many_heads) == OnHopper::kRuns);
  CHECK(on_hopper(1, 1, 32 * 1024) == OnHopper::kRuns);  // 128 runs of one group
  CHECK(on_hopper(1, 1, 20 * 1024) == OnHopper::kNone);  // 80 runs for 132 SMs
  CHECK(on_hopper(1, 1, 34 * 1024) == OnHopper::kNone);  // 68 runs of two groups
}

TEST_CASE("attention plan: runs of an even number of KV heads, and of windows") {
  for (const int kv_heads : {1, 2, 3, 4, 6, 8, 12, 16}) {
    Queries queries = queries_of(64, 1, 4096, 2 * kv_heads);
    queries.num_kv_heads = kv_heads;
    CAPTURE(kv_heads);
    CHECK(on_hopper(queries) == (kv_heads % 2 == 0 ? OnHopper::kRuns : OnHopper::kNone));
    queries.head_dim = 96;
    CHECK(on_hopper(queries) == (kv_heads % 8 == 0 ? OnHopper::kRuns : OnHopper::kNone));
  }
  Queries behind = queries_of(64, 1, 4096);
  behind.window = 1024;
  CHECK(on_hopper(behind) == OnHopper::kRuns);  // 5 groups each
  behind.num_seqs = 16;
  CHECK(on_hopper(behind) == OnHopper::kNone);
}

TEST_CASE("attention plan: what the kernels for Hopper do not serve goes to the others") {
  Queries many = queries_of(64, 33, 4000), much = queries_of(64, 1, 4096);
  CHECK(on_hopper(many) == OnHopper::kWarpgroups);
  CHECK(on_hopper(many, 1) == OnHopper::kWarpgroups);
  many.head_dim = much.head_dim = 80;
  CHECK(on_hopper(many) == OnHopper::kNone);
  CHECK(on_hopper(much) == OnHopper::kRuns);
  much.head_dim = 32;
  CHECK(on_hopper(much) == OnHopper::kNone);
  many.head_dim = much.head_dim = 64;
  many.window = 1000;
  CHECK(on_hopper(many) == OnHopper::kNone);
}

TEST_CASE("attention plan: nothing streams codes in FP8, but on Hopper runs take them") {
  const auto paths = [](Queries queries, int block_size, int num_kv_heads = 8) {
    queries.num_kv_heads = num_kv_heads;
    const Plan plan = Plan::of_codes(queries, block_size, 132);
    return std::pair(plan.path, path_of(queries, plan, block_size, true));
  };
  const Queries little = queries_of(1, 1, 1024), much = queries_of(16, 1, 4096),
                more = queries_of(17, 1, 4096), many = queries_of(1, 33, 1024);
  CHECK(paths(little, 16) == std::pair(Path::kSpread, OnHopper::kNone));
  CHECK(paths(little, 8) == std::pair(Path::kMany, OnHopper::kNone));
  CHECK(paths(much, 16) == std::pair(Path::kSpread, OnHopper::kRuns));  // 128 heads for 132 SMs
  CHECK(paths(more, 16) == std::pair(Path::kMany, OnHopper::kRuns));    // 136
  CHECK(paths(more, 16, 2) == std::pair(Path::kSpread, OnHopper::kRuns));
  CHECK(paths(more, 16, 11) == std::pair(Path::kMany, OnHopper::kWarpgroups));
  CHECK(paths(many, 16) == std::pair(Path::kMany, OnHopper::kWarpgroups));
}

TEST_CASE("attention plan: the groups of one short sequence are a cluster") {
  CHECK_FALSE(plan_of(1, 1, 256).in_clusters);   // one group
  CHECK(plan_of(1, 1, 1024).in_clusters);        // 32 CTAs
  CHECK(plan_of(1, 1, 1536).in_clusters);        // 48
  CHECK_FALSE(plan_of(1, 1, 2048).in_clusters);  // 64
  CHECK_FALSE(plan_of(4, 1, 1024).in_clusters);
  CHECK_FALSE(plan_of(1, 1, 5120).in_clusters);  // streamed
}

TEST_CASE("attention plan: workspace is needed from the second group of keys on") {
  CHECK(plan_of(4, 1, 1).workspace_bytes == 0);
  CHECK(plan_of(64, 1, 256).workspace_bytes == 0);
  // Counters; then for each of 4 x 8 blocks and 2 groups 16 pairs of 128 elements, m and l, in
  // fp32.
  CHECK(plan_of(4, 1, 257).workspace_bytes ==
        4 * kv::attention::kWorkspaceCounters + 4 * 8 * 2 * 16 * (128 + 2) * 4);
  CHECK(plan_of(64, 33, 4000).workspace_bytes == 0);  // many queries
  // Past 2^31.
  CHECK(plan_of(2048, 1, 1 << 20).workspace_bytes ==
        size_t{4} * kv::attention::kWorkspaceCounters + size_t{2048} * 8 * 4096 * 16 * 130 * 4);
}
