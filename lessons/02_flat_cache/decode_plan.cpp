#include "decode_plan.h"

#include "kernels/attention/contract.h"

namespace lesson02 {

DecodePlan::DecodePlan(const DecodeAttentionArgs& args) {
  const int64_t max_pairs = int64_t{args.max_rows_per_seq} * (args.num_heads / args.num_kv_heads);
  blocks_per_seq = static_cast<int>((max_pairs + kPairsPerBlock - 1) / kPairsPerBlock);
  max_groups = (args.max_seq_len + kv::attention::kGroupTokens - 1) / kv::attention::kGroupTokens;
  num_blocks = int64_t{args.num_seqs} * blocks_per_seq * args.num_kv_heads;
  few_queries = max_pairs <= kMaxFewPairs && num_blocks <= kMaxCounters;
}

size_t DecodePlan::partial_bytes(int head_dim) {
  return sizeof(float) * kPairsPerBlock * (static_cast<size_t>(head_dim) + 2);
}

size_t DecodePlan::workspace_bytes(int head_dim) const {
  if (!few_queries || max_groups <= 1) return 0;
  return sizeof(uint32_t) * kMaxCounters + partial_bytes(head_dim) *
                                               static_cast<size_t>(num_blocks) *
                                               static_cast<size_t>(max_groups);
}

size_t decode_attention_workspace_bytes(const DecodeAttentionArgs& args) {
  return DecodePlan(args).workspace_bytes(args.head_dim);
}

}  // namespace lesson02
