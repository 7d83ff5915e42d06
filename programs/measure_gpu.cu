#include "programs/measure_gpu.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <cmath>

#include "kernels/launch.cuh"

namespace kv {
namespace {

using cuda_backend::check;

/// Grid: any number of CTAs.
__global__ void fill_kernel(__nv_bfloat16* data, int64_t n, uint32_t seed) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) {
    uint32_t x = static_cast<uint32_t>(i) * 2654435761u ^ seed;
    x = (x ^ x >> 15) * 2246822519u;
    x = (x ^ x >> 13) * 3266489917u;
    data[i] = __float2bfloat16(static_cast<float>((x ^ x >> 16) & 0xFFFF) / 32768.0f - 1.0f);
  }
}

/// Grid: any number of CTAs. Reads 16 bytes per thread, four at a time.
__global__ void __launch_bounds__(512) read_kernel(const uint4* data, int64_t n, uint32_t* sink) {
  uint32_t sum = 0;
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i + 3 * stride < n; i += 4 * stride) {
    const uint4 a = data[i], b = data[i + stride], c = data[i + 2 * stride],
                d = data[i + 3 * stride];
    sum ^= a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w;
    sum ^= c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
  }
  for (; i < n; i += stride) {
    const uint4 a = data[i];
    sum ^= a.x ^ a.y ^ a.z ^ a.w;
  }
  if (sum == 0x12345678u) *sink = sum;  // Keeps the compiler from removing the reads.
}

/// Median seconds on the device of the work that `work` queues: `times` measurements after one
/// warm-up.
double median_seconds_of(const Stream& stream, size_t times, const std::function<void()>& work) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "creating an event");
  check(cudaEventCreate(&end), "creating an event");
  work();
  std::vector<float> milliseconds(times);
  for (float& ms : milliseconds) {
    check(cudaEventRecord(begin, stream.handle()), "recording an event");
    work();
    check(cudaEventRecord(end, stream.handle()), "recording an event");
    stream.synchronize();
    check(cudaEventElapsedTime(&ms, begin, end), "reading an event");
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::ranges::nth_element(milliseconds, milliseconds.begin() + static_cast<int>(times / 2));
  return milliseconds[times / 2] * 1e-3;
}

}  // namespace

void fill_random(const DeviceBuffer& buffer, uint32_t seed, const Stream& stream) {
  launch(fill_kernel, {.grid = dim3(1024), .block = dim3(256), .name = "filling a buffer"}, stream,
         buffer.as<__nv_bfloat16>(), static_cast<int64_t>(buffer.bytes() / 2), seed);
}

double graph_seconds(const Stream& stream, int rotation, const std::function<void(int)>& call) {
  const cudaStream_t handle = stream.handle();
  cudaGraph_t graph;
  cudaGraphExec_t replay;
  check(cudaStreamBeginCapture(handle, cudaStreamCaptureModeThreadLocal), "beginning a capture");
  for (int i = 0; i < rotation; ++i) call(i);
  check(cudaStreamEndCapture(handle, &graph), "ending a capture");
  check(cudaGraphInstantiate(&replay, graph, 0), "instantiating a graph");
  constexpr int kReplays = 3;
  const double seconds = median_seconds_of(stream, 16, [&] {
    for (int i = 0; i < kReplays; ++i) check(cudaGraphLaunch(replay, handle), "replaying a graph");
  });
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
  return seconds / (kReplays * rotation);
}

int rotation_for(double bytes) {
  int device = 0, l2_bytes = 0;
  check(cudaGetDevice(&device), "asking for the device");
  check(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device),
        "asking for the size of the L2 cache");
  return std::max(1, static_cast<int>(std::ceil(3.0 * l2_bytes / bytes)));
}

double read_seconds(const Stream& stream, std::span<const DeviceBuffer> copies) {
  const DeviceBuffer sink(Device::kCuda, sizeof(uint32_t));
  double best = 1e9;
  for (const unsigned ctas : {264u, 528u, 1056u, 2112u}) {
    const auto read = [&](int i) {
      const DeviceBuffer& buffer = copies[static_cast<size_t>(i)];
      launch(read_kernel, {.grid = dim3(ctas), .block = dim3(512), .name = "reading"}, stream,
             buffer.as<const uint4>(), static_cast<int64_t>(buffer.bytes() / 16),
             sink.as<uint32_t>());
    };
    best = std::min(best, graph_seconds(stream, static_cast<int>(copies.size()), read));
  }
  return best;
}

double copy_bandwidth() {
  constexpr size_t kBytes = size_t{1} << 31;  // far more than the L2 cache holds
  const Stream stream(Device::kCuda);
  const DeviceBuffer from(Device::kCuda, kBytes), to(Device::kCuda, kBytes);
  fill_bytes(from.data(), 0x5A, kBytes, stream);
  // Not from a graph: in a graph the driver copies in another way, at two thirds of the speed.
  const double seconds = median_seconds_of(stream, 9, [&] {
    check(
        cudaMemcpyAsync(to.data(), from.data(), kBytes, cudaMemcpyDeviceToDevice, stream.handle()),
        "copying on the device");
  });
  return 2.0 * kBytes / seconds;
}

}  // namespace kv
