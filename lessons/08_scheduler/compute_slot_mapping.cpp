#include "compute_slot_mapping.h"

namespace lesson08 {

void compute_slot_mapping_cpu(const ComputeSlotMappingArgs& args) {
  for (int seq = 0; seq < args.num_seqs; ++seq) {
    const int32_t* const table = args.block_tables + int64_t{seq} * args.max_blocks_per_seq;
    for (int32_t row = args.first_row[seq]; row < args.first_row[seq + 1]; ++row) {
      const int32_t position = args.seq_len[seq] - args.first_row[seq + 1] + row;
      args.slot_mapping[row] =
          int64_t{table[position / args.block_size]} * args.block_size + position % args.block_size;
    }
  }
}

}  // namespace lesson08
