#include "runs_kernel.h"

#include "kernels/attention/pairs.cuh"
#include "kernels/hopper/runs/runs.cuh"
#include "kernels/launch.cuh"

namespace kernels_test {
namespace {

__global__ void pieces_kernel(kv::attention::Queries queries, PieceOfCta* pieces, int* count) {
  const kv::hopper::Run run(queries);
  kv::hopper::for_each_piece<1>(queries, run, 0, [&](const kv::hopper::Piece& piece, int) {
    if (threadIdx.x > 0) return;
    pieces[atomicAdd(count, 1)] = {.cta = static_cast<int>(blockIdx.x),
                                   .seq = piece.seq,
                                   .begin = piece.begin,
                                   .end = piece.end,
                                   .num_pieces = piece.num_pieces,
                                   .first_groups = piece.first_groups};
  });
}

}  // namespace

void find_pieces(const kv::attention::Queries& queries, int num_ctas, PieceOfCta* pieces,
                 int* count, const kv::Stream& stream) {
  kv::launch(pieces_kernel, {dim3(static_cast<unsigned>(num_ctas)), dim3(32), 0, "finding pieces"},
             stream, queries, pieces, count);
}

}  // namespace kernels_test
