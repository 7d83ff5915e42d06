#pragma once

// The slots in which a pass writes its K and V, for all groups at once. Source: vLLM's
// _compute_slot_mappings_kernel (v0.22.1: vllm/v1/worker/gpu/block_table.py).

#include <cstdint>

#include "common/device.h"
#include "common/host_device.h"
#include "lessons/08_scheduler/compute_slot_mapping.h"

namespace lesson10 {

inline constexpr int kMaxGroups = 64;

/// The rows of the pass are the same in all groups. Each group has block tables of its own, and
/// slots of its own, stored group after group: slot_mapping [num_groups, num_rows].
struct GroupSlotMappingArgs {
  lesson08::ComputeSlotMappingArgs rows = {};    // its block_tables are not used
  int num_groups = 0;                            // at most kMaxGroups
  const int32_t* block_tables[kMaxGroups] = {};  // of each group: [num_seqs, max_blocks_per_seq]
};

/// Lesson 08's arguments, for one group.
KV_HOST_DEVICE static inline lesson08::ComputeSlotMappingArgs of_group(
    const GroupSlotMappingArgs& args, int group) {
  lesson08::ComputeSlotMappingArgs own = args.rows;
  own.block_tables = args.block_tables[group];
  own.slot_mapping += int64_t{group} * own.num_rows;
  return own;
}

void group_slot_mapping_cpu(const GroupSlotMappingArgs& args);
void group_slot_mapping_cuda(const GroupSlotMappingArgs& args, const kv::Stream& stream);
inline void group_slot_mapping(const GroupSlotMappingArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(group_slot_mapping, args, stream);
}

}  // namespace lesson10
