#pragma once

// Where a pass writes its K and V, in all groups at once. Source: vLLM's
// _compute_slot_mappings_kernel (v0.22.1: vllm/v1/worker/gpu/block_table.py).

#include <cstdint>

#include "common/base/device.h"

namespace lesson10 {

/// All arrays are on the stream's device. Row r of sequence s, which has rows first_row[s] up to
/// first_row[s + 1], is the token at position seq_len[s] - first_row[s + 1] + r. In group g:
///   slot = block_tables[g, s, position / block_size] * block_size + position % block_size
struct GroupSlotMappingArgs {
  const int32_t* first_row = nullptr;     // [num_seqs + 1], ascending, from 0 to num_rows
  const int32_t* seq_len = nullptr;       // [num_seqs], this pass's rows included
  const int32_t* block_tables = nullptr;  // [num_groups, num_seqs, max_blocks_per_seq]
  int num_groups = 0;
  int num_seqs = 0;
  int num_rows = 0;
  int max_blocks_per_seq = 0;
  int block_size = 0;
  int64_t* slot_mapping = nullptr;  // out: [num_groups, num_rows]
};

void group_slot_mapping_cpu(const GroupSlotMappingArgs& args);
void group_slot_mapping_cuda(const GroupSlotMappingArgs& args, const kv::Stream& stream);
inline void group_slot_mapping(const GroupSlotMappingArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(group_slot_mapping, args, stream);
}

}  // namespace lesson10
