// Small kernels whose loads and stores can be counted by hand: two warps each, one load and one
// store a thread. traffic_test.py has the numbers.

#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 64;

__global__ void coalesced(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x]; }
__global__ void stride_2(const float* in, float* out) { out[threadIdx.x] = in[2 * threadIdx.x]; }
__global__ void stride_32(const float* in, float* out) { out[threadIdx.x] = in[32 * threadIdx.x]; }
__global__ void backwards(const float* in, float* out) { out[threadIdx.x] = in[63 - threadIdx.x]; }
__global__ void misaligned(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x + 1]; }
__global__ void one_address(const float* in, float* out) {
  out[threadIdx.x] = in[threadIdx.x / 32];
}
__global__ void half_masked(const float* in, float* out) {
  if (threadIdx.x % 32 < 16) out[threadIdx.x] = in[threadIdx.x];
}
__global__ void two_bytes(const float* in, float* out) {
  out[threadIdx.x] = reinterpret_cast<const uint16_t*>(in)[threadIdx.x];
}
__global__ void sixteen_bytes(const float* in, float* out) {
  reinterpret_cast<float4*>(out)[threadIdx.x] = reinterpret_cast<const float4*>(in)[threadIdx.x];
}
/// Lane l reads in[0], in[32], ... : the reads of a thread for each row of a row-major matrix.
__global__ void a_row_each(const float* in, float* out) {
  float sum = 0.0f;
  for (unsigned i = 0; i < 4; ++i) sum += in[32 * threadIdx.x + i];
  out[threadIdx.x] = sum;
}

/// Every thread writes its word; after the barrier it reads `words` apart.
__device__ void through_shared(float (&shared)[33 * 32], unsigned at, const float* in, float* out) {
  shared[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = shared[at];
}
#define SHARED(name, at)                              \
  __global__ void name(const float* in, float* out) { \
    __shared__ float shared[33 * 32];                 \
    const unsigned lane = threadIdx.x % 32;           \
    through_shared(shared, at, in, out);              \
  }
SHARED(shared_in_order, lane)
SHARED(shared_one_word, 0 * lane)
SHARED(shared_stride_2, 2 * lane)
SHARED(shared_stride_32, 32 * lane)
SHARED(shared_padded, 33 * lane)
__global__ void shared_sixteen_bytes(const float* in, float* out) {
  __shared__ float4 shared[kThreads];
  shared[threadIdx.x] = reinterpret_cast<const float4*>(in)[threadIdx.x];
  __syncthreads();
  reinterpret_cast<float4*>(out)[threadIdx.x] = shared[63 - threadIdx.x];
}

}  // namespace

int main() {
  constexpr size_t kBytes = 32 * kThreads * sizeof(float);
  const auto* const in = static_cast<const float*>(simt::malloc_device(kBytes));
  auto* const out = static_cast<float*>(simt::malloc_device(kBytes));
  for (const auto kernel :
       {coalesced, stride_2, stride_32, backwards, misaligned, one_address, half_masked, two_bytes,
        sixteen_bytes, a_row_each, shared_in_order, shared_one_word, shared_stride_2,
        shared_stride_32, shared_padded, shared_sixteen_bytes}) {
    simt::launch(kernel, {.size = 1, .block = kThreads}, in, out);
  }
}
