// Small kernels, each with one fault that the simulated GPU or one of its tools must name, and some
// without a fault, where every tool must be silent. `simt_faults NAME` runs one.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

namespace {

using Kernel = void (*)(float*);

/// Each thread writes, then reads its neighbour's value; a barrier has to separate the two.
template <bool kBarrier>
__global__ void neighbour_kernel(float* out) {
  __shared__ float values[64];
  values[threadIdx.x] = static_cast<float>(threadIdx.x);
  if (kBarrier) __syncthreads();
  out[blockIdx.x * 64 + threadIdx.x] = values[(threadIdx.x + 1) % 64];
}

/// The second round overwrites values that slow threads of the first still read.
template <bool kBarrier>
__global__ void reused_kernel(float* out) {
  __shared__ float first;
  float sum = 0.0f;
  for (int round = 0; round < 2; ++round) {
    if (threadIdx.x == 0) first = static_cast<float>(round);
    __syncthreads();
    sum += first;
    if (kBarrier) __syncthreads();
  }
  out[blockIdx.x * 64 + threadIdx.x] = sum;
}

template <bool kSyncWarp>
__global__ void in_warp_kernel(float* out) {
  __shared__ float values[64];
  values[threadIdx.x] = 1.0f;
  if (kSyncWarp) __syncwarp();
  out[blockIdx.x * 64 + threadIdx.x] = values[threadIdx.x ^ 1];
}

template <bool kAtomic>
__global__ void count_kernel(float* out) {
  if (kAtomic) {
    atomicAdd(out, 1.0f);
  } else {
    out[0] += 1.0f;
  }
}

/// Only CTAs whose numbers differ by a multiple of kApart write to the same place.
template <unsigned kApart>
__global__ void across_ctas_kernel(float* out) {
  out[blockIdx.x % kApart * 64 + threadIdx.x] = 1.0f;
}

template <int kBeyond>
__global__ void global_overrun_kernel(float* out) {
  const auto last = static_cast<int>(gridDim.x * 64) - 1;
  const auto i = static_cast<int>(blockIdx.x * 64 + threadIdx.x);
  out[i == last ? last + kBeyond : i == 0 && kBeyond < 0 ? kBeyond : i] = 1.0f;
}

__global__ void shared_overrun_kernel(float* out) {
  __shared__ float values[64];
  values[threadIdx.x + 1] = 1.0f;
  __syncthreads();
  out[blockIdx.x * 64 + threadIdx.x] = values[threadIdx.x];
}

template <bool kWrites>
__global__ void dynamic_kernel(float* out) {
  auto* const values = simt::dynamic_shared<float>();  // 64 of them
  if (kWrites) values[threadIdx.x + 1] = 1.0f;
  __syncthreads();
  out[blockIdx.x * 64 + threadIdx.x] = values[threadIdx.x];
}

__global__ void barrier_in_if_kernel(float* out) {
  if (threadIdx.x < 48) __syncthreads();
  out[blockIdx.x * 64 + threadIdx.x] = 1.0f;
}

__global__ void lane_in_mask_kernel(float* out) {
  float x = 1.0f;
  if (threadIdx.x % 32 != 5) x += __shfl_xor_sync(~0u, x, 1);
  out[blockIdx.x * 64 + threadIdx.x] = x;
}

__global__ void lane_out_of_mask_kernel(float* out) {
  out[blockIdx.x * 64 + threadIdx.x] = __shfl_xor_sync(0x0000FFFFu, 1.0f, 1);
}

__global__ void different_calls_kernel(float* out) {
  const float x = threadIdx.x % 2 == 0 ? __shfl_sync(~0u, 1.0f, 0) : __shfl_xor_sync(~0u, 1.0f, 1);
  out[blockIdx.x * 64 + threadIdx.x] = x;
}

__global__ void early_copy_kernel(float* out) {
  auto* const values = simt::dynamic_shared<float>();
  if (threadIdx.x < 16) simt::start_copy_16(values + 4 * threadIdx.x, out + 4 * threadIdx.x);
  simt::commit_copies();
  __syncthreads();  // and no wait for the copies
  out[blockIdx.x * 64 + threadIdx.x] = values[threadIdx.x];
}

template <bool kWaits>
__global__ void dependent_kernel(float* out) {
  if (kWaits) cudaGridDependencySynchronize();
  out[blockIdx.x * 64 + threadIdx.x] += 1.0f;
}

/// A row is a sum. Threads take a row each, or thread 0 takes all. The last CTA has one row only.
template <bool kShares>
__global__ void sums_kernel(float* out) {
  const unsigned rows = blockIdx.x + 1 < gridDim.x ? 64 : 1;
  if (!kShares && threadIdx.x > 0) return;
  for (unsigned row = threadIdx.x; row < rows; row += kShares ? 64 : 1) {
    float sum = 0.0f;
    for (unsigned i = 0; i < 200; ++i) sum += static_cast<float>(i % (row + 1));
    out[blockIdx.x * 64 + row] = sum;
  }
}

const std::map<std::string, Kernel> kKernels = {
    {"a barrier missing", neighbour_kernel<false>},
    {"a barrier", neighbour_kernel<true>},
    {"shared memory reused too early", reused_kernel<false>},
    {"shared memory reused after a barrier", reused_kernel<true>},
    {"a syncwarp missing", in_warp_kernel<false>},
    {"a syncwarp", in_warp_kernel<true>},
    {"a lost update", count_kernel<false>},
    {"an atomic update", count_kernel<true>},
    {"two CTAs write one place", across_ctas_kernel<1>},
    {"two CTAs that are four apart write one place", across_ctas_kernel<4>},
    {"one element beyond the end", global_overrun_kernel<1>},
    {"one element before the beginning", global_overrun_kernel<-1>},
    {"no overrun", global_overrun_kernel<0>},
    {"one element beyond a shared array", shared_overrun_kernel},
    {"one element beyond dynamic shared memory", dynamic_kernel<true>},
    {"unwritten shared memory", dynamic_kernel<false>},
    {"a barrier inside an if", barrier_in_if_kernel},
    {"a lane missing that the mask names", lane_in_mask_kernel},
    {"a mask without the lane", lane_out_of_mask_kernel},
    {"lanes in different calls", different_calls_kernel},
    {"a copy not waited for", early_copy_kernel},
    {"a kernel that starts too early", dependent_kernel<false>},
    {"a kernel that waits for the one before", dependent_kernel<true>},
    {"work for thread 0 alone", sums_kernel<false>},
    {"work for all threads", sums_kernel<true>},
};

}  // namespace

int main(int argc, char** argv) {
  const auto found = kKernels.find(argc > 1 ? argv[1] : "");
  if (found == kKernels.end()) return std::puts("which one?"), 2;
  constexpr unsigned kCtas = 8;
  constexpr size_t kFloats = kCtas * 64;
  auto* const out = static_cast<float*>(simt::malloc_device(kFloats * sizeof(float)));
  std::fill_n(out, kFloats, 0.0f);
  const simt::Grid grid{.size = kCtas,
                        .block = 64,
                        .shared_bytes = 256,
                        .overlaps = found->first.starts_with("a kernel")};
  try {
    for (int launch = 0; launch < 2; ++launch) simt::launch(found->second, grid, out);
  } catch (const simt::Error& error) {
    return std::puts(error.what()), 1;
  }
  simt::host_waits();
  for (size_t i = 0; i < kFloats; ++i) {
    if (out[i] != out[i]) return std::printf("NaN in element %zu\n", i), 1;
  }
  simt::free_device(out);
  return std::puts("nothing to say"), 0;
}
