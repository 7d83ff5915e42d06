// The kernels of docs/gpu.md, in the order of the page.

#include "first_kernels.h"

#include "kernels/launch.cuh"
#include "kernels/tensor_core.cuh"
#include "kernels/warp.cuh"
#include "kernels/words.cuh"

namespace first_kernels {
namespace {

constexpr int kWarps = kThreads / 32;

/// Grid: a thread for each element, kThreads of them in a CTA.
__global__ void twice_kernel(const float* in, float* out, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = 2.0f * in[i];
}

/// Grid: a thread for each row.
__global__ void column_kernel(const float* in, float* out, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = in[i * kColumns];
}

/// Grid: one warp.
__global__ void sums_of_lanes_kernel(const float* in, float* down, float* all) {
  const unsigned lane = threadIdx.x;
  float x = in[lane];
  for (unsigned step = 16; step > 0; step /= 2) x += __shfl_down_sync(0xFFFFFFFFu, x, step);
  down[lane] = x;
  all[lane] = kv::warp_sum(in[lane]);
}

/// Grid: one warp. The lanes from n on add zero, but take part in every shuffle.
__global__ void sum_of_first_kernel(const float* in, float* out, int n) {
  const int lane = static_cast<int>(threadIdx.x);
  const float x = lane < n ? in[lane] : 0.0f;
  out[lane] = kv::warp_sum(x);
}

/// The same with a mistake: the mask in warp_sum() names 32 lanes, but only n of them call it.
__global__ void lanes_missing_kernel(const float* in, float* out, int n) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane < n) out[lane] = kv::warp_sum(in[lane]);
}

/// The sum of the CTA's x, in every thread. `of_warp` is in shared memory.
__device__ float cta_sum(float x, float (&of_warp)[kWarps]) {
  const float sum = kv::warp_sum(x);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();  // both sums are written
  return of_warp[0] + of_warp[1];
}

/// Grid: a CTA for each row of kThreads numbers.
__global__ void variance_kernel(const float* in, float* out) {
  __shared__ float of_warp[kWarps];
  const float x = in[blockIdx.x * kThreads + threadIdx.x];
  const float mean = cta_sum(x, of_warp) / kThreads;
  __syncthreads();  // both warps have read of_warp: it may be written again
  const float variance = cta_sum((x - mean) * (x - mean), of_warp) / kThreads;
  if (threadIdx.x == 0) out[blockIdx.x] = variance;
}

/// The same with a mistake: a warp writes its second sum while the other still reads the first.
__global__ void hasty_variance_kernel(const float* in, float* out) {
  __shared__ float of_warp[kWarps];
  const float x = in[blockIdx.x * kThreads + threadIdx.x];
  const float mean = cta_sum(x, of_warp) / kThreads;
  const float variance = cta_sum((x - mean) * (x - mean), of_warp) / kThreads;
  if (threadIdx.x == 0) out[blockIdx.x] = variance;
}

/// Grid: a CTA for each kThreads numbers.
__global__ void partial_sums_kernel(const float* in, float* partial, int n) {
  __shared__ float of_warp[kWarps];
  const int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  const float sum = cta_sum(i < n ? in[i] : 0.0f, of_warp);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

/// Grid: one thread. Adds in order, so the bits do not depend on when a CTA ran.
__global__ void sum_of_partials_kernel(const float* partial, float* out, int num_partials) {
  float sum = 0.0f;
  for (int i = 0; i < num_partials; ++i) sum += partial[i];
  *out = sum;
}

/// Grid: one CTA. While it writes a tile, its copies of the next one are in flight.
template <Version kVersion>
__global__ void reverse_tiles_kernel(const kv::Word* in, kv::Word* out, int tiles) {
  auto* const ring = kv::dynamic_shared<kv::Word>();  // [2, kThreads]
  const int me = static_cast<int>(threadIdx.x);
  const auto start_copy = [&](int tile) {
    kv::Word* const to = ring + tile % 2 * kThreads;
    if (tile < tiles) kv::copy_16(to + me, in + tile * kThreads + me, true);
    kv::commit_copies();  // also where nothing is copied: the wait counts groups
  };
  start_copy(0);
  for (int tile = 0; tile < tiles; ++tile) {
    start_copy(tile + 1);
    kv::wait_for_copies<1>();                          // this thread's word of `tile` has arrived
    if (kVersion == Version::kRight) __syncthreads();  // and all other threads' words
    const kv::Word* const from = ring + tile % 2 * kThreads;
    out[tile * kThreads + me] = from[kThreads - 1 - me];
    __syncthreads();  // all have read: the next round may copy to this place
  }
}

unsigned ctas_for(int n) { return static_cast<unsigned>((n + kThreads - 1) / kThreads); }

/// Grid: one warp. The scores of 16 queries and 8 keys, one instruction for all of them. q [16, 8]
/// and k [8, 8] are pairs of bf16, so a row has 16 elements.
__global__ void scores_kernel(const uint32_t* q, const uint32_t* k, float* scores, float* holder) {
  const int lane = static_cast<int>(threadIdx.x), quad = lane / 4, t = lane % 4;
  const uint32_t* const upper = q + 8 * quad;   // query quad
  const uint32_t* const lower = upper + 8 * 8;  // query quad + 8
  const uint32_t* const key = k + 8 * quad;
  float c[4] = {};
  kv::mma_step(c, {upper[t], lower[t], upper[t + 4], lower[t + 4]}, key[t], key[t + 4]);
  for (int i = 0; i < 4; ++i) {
    const int query = quad + 8 * (i / 2), column = 2 * t + i % 2;
    scores[8 * query + column] = c[i];
    holder[8 * query + column] = static_cast<float>(lane);
  }
}

}  // namespace

void twice(const float* in, float* out, int n, const kv::Stream& stream) {
  kv::launch(twice_kernel,
             {.grid = dim3(ctas_for(n)), .block = dim3(kThreads), .name = "launching twice"},
             stream, in, out, n);
}

void column_of(const float* in, float* out, int n, const kv::Stream& stream) {
  kv::launch(column_kernel,
             {.grid = dim3(ctas_for(n)), .block = dim3(kThreads), .name = "launching column"},
             stream, in, out, n);
}

void sums_of_lanes(const float* in, float* down, float* all, const kv::Stream& stream) {
  kv::launch(sums_of_lanes_kernel,
             {.grid = dim3(1), .block = dim3(32), .name = "launching sums_of_lanes"}, stream, in,
             down, all);
}

void sum_of_first(const float* in, float* out, int n, Version version, const kv::Stream& stream) {
  kv::launch(version == Version::kRight ? sum_of_first_kernel : lanes_missing_kernel,
             {.grid = dim3(1), .block = dim3(32), .name = "launching sum_of_first"}, stream, in,
             out, n);
}

void scores(const uint32_t* q, const uint32_t* k, float* scores, float* holder,
            const kv::Stream& stream) {
  kv::launch(scores_kernel, {.grid = dim3(1), .block = dim3(32), .name = "launching scores"},
             stream, q, k, scores, holder);
}

void variances(const float* in, float* out, int rows, Version version, const kv::Stream& stream) {
  kv::launch(version == Version::kRight ? variance_kernel : hasty_variance_kernel,
             {.grid = dim3(static_cast<unsigned>(rows)),
              .block = dim3(kThreads),
              .name = "launching variance"},
             stream, in, out);
}

void sum(const float* in, float* partial, float* out, int n, const kv::Stream& stream) {
  const unsigned ctas = ctas_for(n);
  kv::launch(partial_sums_kernel,
             {.grid = dim3(ctas), .block = dim3(kThreads), .name = "launching partial_sums"},
             stream, in, partial, n);
  kv::launch(sum_of_partials_kernel,
             {.grid = dim3(1), .block = dim3(1), .name = "launching sum_of_partials"}, stream,
             partial, out, static_cast<int>(ctas));
}

void reverse_tiles(const void* in, void* out, int tiles, Version version,
                   const kv::Stream& stream) {
  kv::launch(version == Version::kRight ? reverse_tiles_kernel<Version::kRight>
                                        : reverse_tiles_kernel<Version::kWrong>,
             {.grid = dim3(1),
              .block = dim3(kThreads),
              .shared_bytes = 2 * kThreads * sizeof(kv::Word),
              .name = "launching reverse_tiles"},
             stream, static_cast<const kv::Word*>(in), static_cast<kv::Word*>(out), tiles);
}

}  // namespace first_kernels
