// The CUDA twin of compute_slot_mapping. Floor: a table entry of 4 bytes read and a slot of 8 bytes
// written for each row, 6 KB for 512 rows: nothing but the latency of a launch. What it saves is
// the host's loop over all rows, and the copy of its result.

#include "compute_slot_mapping.h"
#include "kernels/launch.cuh"

namespace lesson08 {
namespace {

constexpr int kThreadsPerCta = 256;

/// Grid: (rows / kThreadsPerCta). A thread finds its row's sequence by bisection.
__global__ void compute_slot_mapping_kernel(ComputeSlotMappingArgs args) {
  kv::let_successors_start();
  kv::wait_for_predecessors();
  const int row = static_cast<int>(blockIdx.x) * kThreadsPerCta + static_cast<int>(threadIdx.x);
  if (row >= args.num_rows) return;
  int seq = 0;  // the last one that begins at this row or before it, and has rows
  for (int end = args.num_seqs; end - seq > 1;) {
    const int middle = seq + (end - seq) / 2;
    if (args.first_row[middle] <= row) {
      seq = middle;
    } else {
      end = middle;
    }
  }
  const int position = args.seq_len[seq] - args.first_row[seq + 1] + row;
  const int64_t entry = int64_t{seq} * args.max_blocks_per_seq + position / args.block_size;
  args.slot_mapping[row] =
      int64_t{args.block_tables[entry]} * args.block_size + position % args.block_size;
}

}  // namespace

void compute_slot_mapping_cuda(const ComputeSlotMappingArgs& args, const kv::Stream& stream) {
  if (args.num_rows == 0) return;
  const int ctas = (args.num_rows + kThreadsPerCta - 1) / kThreadsPerCta;
  kv::launch_dependent(compute_slot_mapping_kernel,
                       {dim3(static_cast<unsigned>(ctas)), dim3(kThreadsPerCta), 0,
                        "launching compute_slot_mapping"},
                       stream, args);
}

}  // namespace lesson08
