// Kernels that show one way to reach memory each, for tools/warp_trace.py and the page about one
// warp. `SIMT_TRACE=FILE simt_patterns NAME` in a simt-trace build records one.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

namespace {

using Kernel = void (*)(const float*, float*);
constexpr unsigned kSide = 32;  // of a square of floats

/// A lane for each column: neighbours read neighbours.
__global__ void coalesced_kernel(const float* in, float* out) {
  const unsigned column = threadIdx.x;
  float sum = 0.0f;
  for (unsigned row = 0; row < 4; ++row) sum += in[row * kSide + column];
  out[column] = sum;
}

/// A lane for each row: its neighbour's float is a whole row away.
__global__ void strided_kernel(const float* in, float* out) {
  const unsigned row = threadIdx.x;
  float sum = 0.0f;
  for (unsigned column = 0; column < 4; ++column) sum += in[row * kSide + column];
  out[row] = sum;
}

/// Rows go into shared memory, columns come out. Floats of one column are kWidth words apart: 32
/// words put them in one bank, 33 words in 32 banks.
template <unsigned kWidth>
__global__ void transpose_kernel(const float* in, float* out) {
  __shared__ float tile[kSide * kWidth];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  tile[warp * kWidth + lane] = in[warp * kSide + lane];
  __syncthreads();
  out[warp * kSide + lane] = tile[lane * kWidth + warp];
}

struct Pattern {
  Kernel kernel;
  unsigned threads;
};
const std::map<std::string, Pattern> kPatterns = {{"coalesced", {coalesced_kernel, kSide}},
                                                  {"strided", {strided_kernel, kSide}},
                                                  {"one_bank", {transpose_kernel<32>, 1024}},
                                                  {"padded", {transpose_kernel<33>, 1024}}};

}  // namespace

int main(int argc, char** argv) {
  const auto found = kPatterns.find(argc > 1 ? argv[1] : "");
  if (found == kPatterns.end()) return std::puts("which one?"), 2;
  constexpr size_t kFloats = kSide * kSide;
  auto* const in = static_cast<float*>(simt::malloc_device(kFloats * sizeof(float)));
  auto* const out = static_cast<float*>(simt::malloc_device(kFloats * sizeof(float)));
  std::fill_n(in, kFloats, 1.0f);
  simt::launch(found->second.kernel, {.size = 1, .block = found->second.threads}, in, out);
  simt::host_waits();
  std::printf("%s: the first element is %g\n", argv[1], static_cast<double>(out[0]));
  simt::free_device(in);
  simt::free_device(out);
}
