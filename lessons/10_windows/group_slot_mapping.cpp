#include "group_slot_mapping.h"

namespace lesson10 {

void group_slot_mapping_cpu(const GroupSlotMappingArgs& args) {
  for (int group = 0; group < args.num_groups; ++group) {
    int64_t* const slots = args.slot_mapping + int64_t{group} * args.num_rows;
    for (int seq = 0; seq < args.num_seqs; ++seq) {
      const int64_t table_row = int64_t{group} * args.num_seqs + seq;
      const int32_t* const table = args.block_tables + table_row * args.max_blocks_per_seq;
      for (int32_t row = args.first_row[seq]; row < args.first_row[seq + 1]; ++row) {
        const int32_t position = args.seq_len[seq] - args.first_row[seq + 1] + row;
        slots[row] = int64_t{table[position / args.block_size]} * args.block_size +
                     position % args.block_size;
      }
    }
  }
}

}  // namespace lesson10
