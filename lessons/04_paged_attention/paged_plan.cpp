#include "paged_plan.h"

#include "kernels/attention/contract.h"

namespace lesson04 {
namespace {

/// From here on streaming is faster than spreading a group over 16 warps (H200: 132
/// multiprocessors).
constexpr int64_t kEnoughGroups = 160;
/// CTAs of kStream that run at once on an H200. If there are a few more groups than that, each CTA
/// takes two: one full wave is faster than a full and a nearly empty one.
constexpr int64_t kOneWave = 6 * 132;

int divide_up(int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); }

}  // namespace

PagedPlan::PagedPlan(const PagedAttentionArgs& args) {
  const int64_t max_pairs =
      int64_t{args.max_rows_per_seq} * (args.num_heads / args.cache.num_kv_heads);
  max_groups = divide_up(args.max_seq_len, kv::attention::kGroupTokens);
  const auto count_blocks = [&](int pairs) {
    pairs_per_block = pairs;
    blocks_per_seq = divide_up(max_pairs, pairs);
    num_blocks = int64_t{args.num_seqs} * blocks_per_seq * args.cache.num_kv_heads;
  };
  count_blocks(max_pairs <= 8 ? 8 : kv::attention::kPairsPerBlock);
  max_rows_per_seq = args.max_rows_per_seq;
  groups_per_run = 1;
  const int64_t groups = num_blocks * max_groups;
  if (max_pairs > kv::attention::kMaxFewPairs) {
    kernel = Kernel::kMany;
  } else if (groups >= kEnoughGroups) {
    kernel = Kernel::kStream;
    if (groups > kOneWave && groups <= 2 * kOneWave) groups_per_run = 2;
  } else {
    kernel = Kernel::kSpread;
    count_blocks(kv::attention::kPairsPerBlock);
  }
}

size_t PagedPlan::workspace_bytes(int head_dim) const {
  if (kernel == Kernel::kMany || max_groups <= 1) return 0;
  return sizeof(uint32_t) * kv::attention::kMaxCounters +
         lesson02::DecodePlan::partial_bytes(head_dim) * static_cast<size_t>(num_blocks) *
             static_cast<size_t>(max_groups);
}

size_t paged_attention_workspace_bytes(const PagedAttentionArgs& args) {
  return PagedPlan(args).workspace_bytes(args.cache.head_dim);
}

}  // namespace lesson04
