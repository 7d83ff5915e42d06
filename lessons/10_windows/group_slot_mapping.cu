// The CUDA twin of group_slot_mapping. A launch for each group would cost a few microseconds each,
// and there is next to nothing to do in any of them: one grid has all groups. As in lesson 08 the
// CTAs are on the chip when the tables come.

#include "group_slot_mapping.h"

#include "kernels/launch.cuh"

namespace lesson10 {
namespace {

constexpr int kThreadsPerCta = 256;

/// Grid: (num_seqs, num_groups). The CTA's threads take the sequence's rows in turn.
__global__ void group_slot_mapping_kernel(GroupSlotMappingArgs args) {
  kv::let_successors_start();
  kv::wait_for_predecessors();
  const auto seq = static_cast<int>(blockIdx.x);
  const auto group = static_cast<int>(blockIdx.y);
  const int64_t table_row = int64_t{group} * args.num_seqs + seq;
  const int32_t* table = args.block_tables + table_row * args.max_blocks_per_seq;
  int64_t* slots = args.slot_mapping + int64_t{group} * args.num_rows;
  const int end = args.first_row[seq + 1];
  for (int row = args.first_row[seq] + static_cast<int>(threadIdx.x); row < end;
       row += kThreadsPerCta) {
    const int position = args.seq_len[seq] - (end - row);
    slots[row] =
        int64_t{table[position / args.block_size]} * args.block_size + position % args.block_size;
  }
}

}  // namespace

void group_slot_mapping_cuda(const GroupSlotMappingArgs& args, const kv::Stream& stream) {
  if (args.num_rows == 0) return;
  const dim3 grid(static_cast<unsigned>(args.num_seqs), static_cast<unsigned>(args.num_groups));
  kv::launch_dependent(group_slot_mapping_kernel,
                       {grid, dim3(kThreadsPerCta), 0, "launching group_slot_mapping"}, stream,
                       args);
}

}  // namespace lesson10
