#include "kernels/attention/plan.h"

#include <algorithm>

#include "kernels/attention/contract.h"

namespace kv::attention {
namespace {

/// Up to this number of pairs a pass has few queries, and the work is split by keys.
constexpr int kMaxFewPairs = 4 * kPairsPerBlock;
/// CTAs of kStream that run at once on an H200. If there are a few more groups than that, each CTA
/// takes two: one full wave is faster than a full and a nearly empty one.
constexpr int kSms = 132;
constexpr int64_t kOneWave = 6 * kSms;

int divide_up(int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); }

/// The partial result of one block of pairs and one group of keys: acc, m and l in fp32.
size_t partial_bytes(int head_dim) {
  return sizeof(float) * kPairsPerBlock * (static_cast<size_t>(head_dim) + 2);
}

/// True if the kernels for Hopper serve this head_dim.
bool serves_on_hopper(const Queries& queries) {
  return queries.head_dim == 64 || queries.head_dim == 128;
}

/// True if kRuns serves the pass, which has enough groups for streaming.
bool runs_serve(const Queries& queries, int64_t max_pairs, int max_groups) {
  const int heads = run_heads(queries.num_kv_heads);
  if (heads == 0 || !serves_on_hopper(queries) || max_pairs > kRunPairs ||
      int64_t{queries.num_seqs} * queries.num_kv_heads > kWorkspaceCounters) {
    return false;
  }
  const int64_t groups = int64_t{queries.num_seqs} * max_groups;  // of all heads of a CTA at once
  const int ctas = std::max(1, kSms * run_ctas(heads) / (queries.num_kv_heads / heads));
  const int length = divide_up(groups, ctas);
  // Work for most of the CTAs.
  return merges_runs_apart(max_groups, length) ? 4 * groups >= 3 * ctas * length
                                               : groups >= ctas * 7 / 8;
}

}  // namespace

Plan::Path path_of_many(const Queries& queries, bool on_hopper) {
  return on_hopper && queries.window == 0 && serves_on_hopper(queries) ? Plan::Path::kWarpgroups
                                                                       : Plan::Path::kMany;
}

const char* name_of(Plan::Path path) {
  switch (path) {
    case Plan::Path::kSpread:
      return "spread";
    case Plan::Path::kStream:
      return "stream";
    case Plan::Path::kRuns:
      return "runs";
    case Plan::Path::kMany:
      return "many";
    case Plan::Path::kWarpgroups:
      return "warpgroups";
  }
  return "";
}

Plan::Plan(const Queries& queries, bool on_hopper) {
  const int64_t max_pairs =
      int64_t{queries.max_rows_per_seq} * (queries.num_heads / queries.num_kv_heads);
  const auto count_blocks = [&](int pairs) {
    pairs_per_block = pairs;
    blocks_per_seq = divide_up(max_pairs, pairs);
    num_blocks = int64_t{queries.num_seqs} * blocks_per_seq * queries.num_kv_heads;
  };
  count_blocks(max_pairs <= 8 ? 8 : kPairsPerBlock);
  max_groups = divide_up(queries.max_seq_len, kGroupTokens);
  if (queries.window > 0) {  // no more groups than the keys of these queries can touch
    const int64_t tokens = int64_t{queries.window} - 1 + queries.max_rows_per_seq;
    max_groups = std::min(max_groups, divide_up(tokens - 1, kGroupTokens) + 1);
  }
  groups_per_run = 1;
  in_clusters = false;
  const int64_t groups = num_blocks * max_groups;
  if (max_pairs > kMaxFewPairs) {
    path = path_of_many(queries, on_hopper);
  } else if (groups >= kEnoughGroups) {
    path = on_hopper && runs_serve(queries, max_pairs, max_groups) ? Path::kRuns : Path::kStream;
    if (groups > kOneWave && groups <= 2 * kOneWave) groups_per_run = 2;
  } else {
    path = Path::kSpread;
    count_blocks(kPairsPerBlock);
    in_clusters =
        max_groups > 1 && max_groups <= kClusterGroups && num_blocks * max_groups <= kMostClustered;
  }
  workspace_bytes = 0;
  if (max_pairs > kMaxFewPairs || max_groups <= 1) return;
  workspace_bytes = sizeof(uint32_t) * kWorkspaceCounters + partial_bytes(queries.head_dim) *
                                                                static_cast<size_t>(num_blocks) *
                                                                static_cast<size_t>(max_groups);
}

}  // namespace kv::attention
