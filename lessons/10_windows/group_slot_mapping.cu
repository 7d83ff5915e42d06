// The CUDA twin of group_slot_mapping. One grid covers all groups, because a launch for each group
// would cost a few microseconds and do next to nothing.

#include "group_slot_mapping.h"

#include "kernels/launch.cuh"

namespace lesson10 {
namespace {

constexpr int kThreadsPerCta = 256;

/// Grid: (num_seqs, num_groups). The CTA's threads take the sequence's rows in turn.
__global__ void group_slot_mapping_kernel(GroupSlotMappingArgs args) {
  const auto seq = static_cast<int>(blockIdx.x);
  const auto own = of_group(args, static_cast<int>(blockIdx.y));
  const int end = own.first_row[seq + 1];
  for (int row = own.first_row[seq] + static_cast<int>(threadIdx.x); row < end;
       row += kThreadsPerCta) {
    own.slot_mapping[row] = lesson08::slot_of_row(own, seq, row);
  }
}

}  // namespace

void group_slot_mapping_cuda(const GroupSlotMappingArgs& args, const kv::Stream& stream) {
  if (args.rows.num_rows == 0) return;
  const dim3 grid(static_cast<unsigned>(args.rows.num_seqs),
                  static_cast<unsigned>(args.num_groups));
  kv::launch(group_slot_mapping_kernel,
             {grid, dim3(kThreadsPerCta), 0, "launching group_slot_mapping"}, stream, args);
}

}  // namespace lesson10
