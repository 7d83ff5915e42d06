// The CUDA twin of reject_guesses. The guesses of one sequence are judged in order, because each
// depends on those before it; the sequences are judged at the same time. It reads a few integers
// for each row, so the launch costs more than the work, and it is a dependent launch.

#include "reject_guesses.h"

#include "kernels/launch.cuh"

namespace lesson09 {
namespace {

constexpr int kThreadsPerCta = 128;

/// Grid: (num_rows / kThreadsPerCta, rounded up). The thread of a known row judges the guesses
/// after it, up to the next known row. So one thread reads and writes each row, and threads do not
/// wait for each other.
__global__ void reject_guesses_kernel(RejectGuessesArgs args) {
  kv::let_successors_start();
  kv::wait_for_predecessors();
  const auto known = static_cast<int>(blockIdx.x * kThreadsPerCta + threadIdx.x);
  if (known >= args.num_rows || args.guesses[known] >= 0) return;
  for (int row = known + 1; row < args.num_rows && args.guesses[row] >= 0; ++row) {
    if (args.guesses[row] != args.chosen[row - 1]) args.chosen[row] = -1;
  }
}

}  // namespace

void reject_guesses_cuda(const RejectGuessesArgs& args, const kv::Stream& stream) {
  if (args.num_rows == 0) return;
  const dim3 grid(static_cast<unsigned>((args.num_rows + kThreadsPerCta - 1) / kThreadsPerCta));
  kv::launch_dependent(reject_guesses_kernel,
                       {grid, dim3(kThreadsPerCta), 0, "launching reject_guesses"}, stream, args);
}

}  // namespace lesson09
