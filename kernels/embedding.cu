// Rows of the packed table, widened to fp32. The packed layout stores a row's columns in pairs
// (pack_weights.cuh). Floor: 6 bytes per element (bf16 in, fp32 out).

#include "kernels/embedding.h"

#include <cuda_bf16.h>

#include "kernels/launch.cuh"
#include "kernels/pack_weights.cuh"

namespace kv {
namespace {

constexpr int kThreadsPerCta = 128;
constexpr int kPiece = 8;  // columns, in four pairs

// Grid: num_rows CTAs. Thread t writes pieces t, t + 128, ... of the CTA's row.
__global__ void embedding_kernel(const int32_t* token_ids, const __nv_bfloat16* table,
                                 int hidden_size, float* out) {
  let_successors_start();
  const int token = token_ids[blockIdx.x];
  float* row = out + static_cast<int64_t>(blockIdx.x) * hidden_size;
  for (int col = static_cast<int>(threadIdx.x) * kPiece; col < hidden_size;
       col += kThreadsPerCta * kPiece) {
    uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      pairs[i] =
          *reinterpret_cast<const uint32_t*>(table + packed_index(token, col + 2 * i, hidden_size));
    }
    float x[kPiece];
#pragma unroll
    for (int i = 0; i < kPiece; ++i) {  // bf16 is the upper half of a float
      x[i] = __uint_as_float(i % 2 == 0 ? pairs[i / 2] << 16 : pairs[i / 2] & 0xFFFF0000u);
    }
    if (hidden_size % kPiece == 0) {
      *reinterpret_cast<float4*>(row + col) = {x[0], x[1], x[2], x[3]};
      *reinterpret_cast<float4*>(row + col + 4) = {x[4], x[5], x[6], x[7]};
    } else {
#pragma unroll
      for (int i = 0; i < kPiece; ++i) {
        if (col + i < hidden_size) row[col + i] = x[i];
      }
    }
  }
}

}  // namespace

void embedding_cuda(const EmbeddingArgs& args, const Stream& stream) {
  if (args.num_rows == 0) return;
  // The first kernel of a pass is not a dependent launch: it waits for all work queued before it,
  // so the kernels after it may read that work's results early.
  const Launch shape{.grid = dim3(static_cast<unsigned>(args.num_rows)),
                     .block = dim3(kThreadsPerCta),
                     .name = "launching embedding"};
  launch(embedding_kernel, shape, stream, args.token_ids,
         static_cast<const __nv_bfloat16*>(args.table.data), args.table.cols, args.out);
}

}  // namespace kv
