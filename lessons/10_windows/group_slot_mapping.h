#pragma once

// Where a pass writes its K and V, in all groups at once. Source: vLLM's
// _compute_slot_mappings_kernel (v0.22.1: vllm/v1/worker/gpu/block_table.py).

#include <cstdint>

#include "common/base/device.h"
#include "common/base/host_device.h"
#include "lessons/08_scheduler/compute_slot_mapping.h"

namespace lesson10 {

/// The rows of the pass are the same in all groups. Tables and slots are each group's own, and
/// stand one group after the other:
///   block_tables [num_groups, num_seqs, max_blocks_per_seq], slot_mapping [num_groups, num_rows]
struct GroupSlotMappingArgs {
  lesson08::ComputeSlotMappingArgs first;  // of group 0
  int num_groups = 0;
};

/// Lesson 08's arguments, for one group.
KV_HOST_DEVICE static inline lesson08::ComputeSlotMappingArgs of_group(
    const GroupSlotMappingArgs& args, int group) {
  lesson08::ComputeSlotMappingArgs own = args.first;
  own.block_tables += int64_t{group} * own.num_seqs * own.max_blocks_per_seq;
  own.slot_mapping += int64_t{group} * own.num_rows;
  return own;
}

void group_slot_mapping_cpu(const GroupSlotMappingArgs& args);
void group_slot_mapping_cuda(const GroupSlotMappingArgs& args, const kv::Stream& stream);
inline void group_slot_mapping(const GroupSlotMappingArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(group_slot_mapping, args, stream);
}

}  // namespace lesson10
