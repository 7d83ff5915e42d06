#include "kernels/attention/plan.h"

#include <algorithm>

#include "kernels/attention/contract.h"

namespace kv::attention {
namespace {

/// Up to this number of pairs a pass has few queries, and the work is split by keys.
constexpr int kMaxFewPairs = 4 * kPairsPerBlock;

int divide_up(int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); }

/// The partial result of one block of pairs and one group of keys: acc, m and l in fp32.
size_t partial_bytes(int head_dim) {
  return sizeof(float) * kPairsPerBlock * (static_cast<size_t>(head_dim) + 2);
}

}  // namespace

const char* name_of(Plan::Path path) {
  constexpr const char* kNames[] = {"spread", "stream", "many"};
  return kNames[static_cast<size_t>(path)];
}

Plan::Plan(const Queries& queries) {
  const int64_t max_pairs = queries.max_pairs();
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
  in_clusters = false;
  const int64_t groups = num_blocks * max_groups;
  if (max_pairs > kMaxFewPairs) {
    path = Path::kMany;
  } else if (groups >= kEnoughGroups) {
    path = Path::kStream;
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

Plan Plan::of_codes(const Queries& queries, int block_size, int num_sms) {
  Plan plan(queries);
  const bool fill_gpu = queries.num_seqs * queries.num_kv_heads >= num_sms;
  if (plan.path == Path::kStream) plan.path = fill_gpu ? Path::kMany : Path::kSpread;
  if (block_size < kCopiedTokens) plan.path = Path::kMany;
  return plan;
}

}  // namespace kv::attention
