// Copies rows, a CTA for each. A pass wants the logits of few rows, so its time does not matter.

#include "kernels/gather_rows.h"
#include "kernels/launch.cuh"

namespace kv {
namespace {

constexpr int kThreadsPerCta = 256;

// Grid: num_rows CTAs. Thread t copies elements t, t + 256, ... of the CTA's row.
__global__ void gather_rows_kernel(const float* x, const int32_t* rows, int k, float* out) {
  let_successors_start();
  wait_for_predecessors();
  const float* in = x + static_cast<int64_t>(rows[blockIdx.x]) * k;
  float* row_out = out + static_cast<int64_t>(blockIdx.x) * k;
  for (int i = static_cast<int>(threadIdx.x); i < k; i += kThreadsPerCta) row_out[i] = in[i];
}

}  // namespace

void gather_rows_cuda(const GatherRowsArgs& args, const Stream& stream) {
  if (args.num_rows == 0) return;
  const Launch launch{dim3(static_cast<unsigned>(args.num_rows)), dim3(kThreadsPerCta), 0,
                      "launching gather_rows"};
  launch_dependent(gather_rows_kernel, launch, stream, args.x, args.rows, args.k, args.out);
}

}  // namespace kv
