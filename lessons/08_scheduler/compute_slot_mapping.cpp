#include "compute_slot_mapping.h"

namespace lesson08 {

void compute_slot_mapping_cpu(const ComputeSlotMappingArgs& args) {
  for (int seq = 0; seq < args.num_seqs; ++seq) {
    for (int32_t row = args.first_row[seq]; row < args.first_row[seq + 1]; ++row) {
      args.slot_mapping[row] = slot_of_row(args, seq, row);
    }
  }
}

}  // namespace lesson08
