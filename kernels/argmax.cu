// The index of each row's largest logit. Floor: 4 bytes per logit, 608 KB for a vocabulary of
// 151,936. That is too much for one SM, so on sm_90 a cluster of 8 CTAs shares a row. Its first CTA
// reads the others' winners from their shared memory.

#include "kernels/argmax.h"

#include <cooperative_groups.h>

#include <cstdint>

#include "kernels/launch.cuh"

namespace kv {
namespace {

constexpr int kThreadsPerCta = 1024;
constexpr int kClusterCtas = 8;

/// A candidate's sort key. The key of a greater logit is larger; of equal logits, that of the lower
/// index. A NaN is below every number, and -0 equals 0.
__device__ uint64_t key_of(float logit, int index) {
  const uint32_t bits = __float_as_uint(logit + 0.0f);
  uint32_t order = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  if (logit != logit) order = 0;
  return static_cast<uint64_t>(order) << 32 | (0xFFFFFFFFu - static_cast<uint32_t>(index));
}

__device__ int index_of(uint64_t key) {
  return static_cast<int>(0xFFFFFFFFu - static_cast<uint32_t>(key));
}

__device__ uint64_t warp_max(uint64_t key) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    const uint64_t other = __shfl_xor_sync(0xFFFFFFFFu, key, mask);
    key = other > key ? other : key;
  }
  return key;
}

// Grid: (CTAs that share a row: a cluster, num_rows). Each thread strides over the row; then warps,
// then the CTA, then the cluster's first CTA find the best of their parts.
__global__ void __launch_bounds__(kThreadsPerCta)
    argmax_kernel(const float* logits, int vocab_size, int32_t* out) {
  let_successors_start();
  wait_for_predecessors();
  __shared__ uint64_t warp_best[kThreadsPerCta / 32];
  const int thread = static_cast<int>(threadIdx.x);
  const float* row = logits + static_cast<int64_t>(blockIdx.y) * vocab_size;
  const int stride = static_cast<int>(gridDim.x) * kThreadsPerCta;

  uint64_t best = 0;  // below every candidate
#pragma unroll 8
  for (int i = static_cast<int>(blockIdx.x) * kThreadsPerCta + thread; i < vocab_size;
       i += stride) {
    const uint64_t key = key_of(row[i], i);
    best = key > best ? key : best;
  }
  best = warp_max(best);
  if (thread % 32 == 0) warp_best[thread / 32] = best;
  __syncthreads();
  if (thread < 32) best = warp_max(warp_best[thread]);

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  __shared__ uint64_t cta_best;
  if (thread == 0) cta_best = best;
  const auto cluster = cooperative_groups::this_cluster();
  cluster.sync();
  if (cluster.block_rank() == 0 && thread < 32) {
    const auto others = static_cast<int>(cluster.num_blocks());
    if (thread < others) best = *cluster.map_shared_rank(&cta_best, thread);
    best = warp_max(best);
  }
  cluster.sync();  // no CTA exits while another one reads its shared memory
  if (cluster.block_rank() != 0) return;
#endif
  if (thread == 0) out[blockIdx.y] = index_of(best);
}

}  // namespace

void argmax_cuda(const ArgmaxArgs& args, const Stream& stream) {
  if (args.num_rows == 0) return;
  const unsigned ctas = cuda_backend::compute_major() >= 9 ? kClusterCtas : 1;
  const Launch launch{.grid = dim3(ctas, static_cast<unsigned>(args.num_rows)),
                      .block = dim3(kThreadsPerCta),
                      .name = "launching argmax",
                      .cluster_ctas = ctas};
  launch_dependent(argmax_kernel, launch, stream, args.logits, args.vocab_size, args.out);
}

}  // namespace kv
