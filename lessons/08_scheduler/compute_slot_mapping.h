#pragma once

// The slots into which a pass writes its K and V, computed on the device from the block tables,
// which attention needs there anyway. Source: vLLM's _compute_slot_mapping_kernel (v0.22.1:
// vllm/v1/worker/block_table.py).

#include <cstdint>

#include "common/device.h"
#include "common/host_device.h"

namespace lesson08 {

/// All arrays are on the stream's device. Row r of sequence s, which has rows first_row[s] up to
/// first_row[s + 1], is the token at position seq_len[s] - first_row[s + 1] + r:
///   slot = block_tables[s, position / block_size] * block_size + position % block_size
struct ComputeSlotMappingArgs {
  const int32_t* first_row = nullptr;     // [num_seqs + 1], ascending, from 0 to num_rows
  const int32_t* seq_len = nullptr;       // [num_seqs], this pass's rows included
  const int32_t* block_tables = nullptr;  // [num_seqs, max_blocks_per_seq]
  int num_seqs = 0;
  int num_rows = 0;
  int max_blocks_per_seq = 0;
  int block_size = 0;
  int64_t* slot_mapping = nullptr;  // out: [num_rows]
};

/// Returns the slot of row `row` of sequence `seq`, on the host and on the device.
KV_HOST_DEVICE static inline int64_t slot_of_row(const ComputeSlotMappingArgs& args, int seq,
                                                 int row) {
  const int32_t* const table = args.block_tables + int64_t{seq} * args.max_blocks_per_seq;
  const int position = args.seq_len[seq] - args.first_row[seq + 1] + row;
  return int64_t{table[position / args.block_size]} * args.block_size + position % args.block_size;
}

void compute_slot_mapping_cpu(const ComputeSlotMappingArgs& args);
void compute_slot_mapping_cuda(const ComputeSlotMappingArgs& args, const kv::Stream& stream);
inline void compute_slot_mapping(const ComputeSlotMappingArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(compute_slot_mapping, args, stream);
}

}  // namespace lesson08
