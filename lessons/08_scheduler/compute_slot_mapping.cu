// The CUDA twin of compute_slot_mapping, which saves the host a loop over all rows and a copy of
// its result. A plain launch: the kernel starts after all earlier work of the stream.

#include "compute_slot_mapping.h"

#include "kernels/launch.cuh"

namespace lesson08 {
namespace {

constexpr int kThreadsPerCta = 256;

/// Grid: (num_seqs). The CTA's threads take the sequence's rows in turn.
__global__ void compute_slot_mapping_kernel(ComputeSlotMappingArgs args) {
  const auto seq = static_cast<int>(blockIdx.x);
  const int end = args.first_row[seq + 1];
  for (int row = args.first_row[seq] + static_cast<int>(threadIdx.x); row < end;
       row += kThreadsPerCta) {
    args.slot_mapping[row] = slot_of_row(args, seq, row);
  }
}

}  // namespace

void compute_slot_mapping_cuda(const ComputeSlotMappingArgs& args, const kv::Stream& stream) {
  if (args.num_rows == 0) return;
  const dim3 grid(static_cast<unsigned>(args.num_seqs));
  kv::launch(compute_slot_mapping_kernel,
             {grid, dim3(kThreadsPerCta), 0, "launching compute_slot_mapping"}, stream, args);
}

}  // namespace lesson08
