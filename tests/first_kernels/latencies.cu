#include "latencies.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "common/device.h"
#include "kernels/launch.cuh"

namespace first_kernels {
namespace {

constexpr int kSteps = 4096;
constexpr size_t kApart = 128;  // bytes: no two places share a cache line

/// Grid: one thread. *cursor is where the walk continues; each place holds the address of the next.
__global__ void walk_kernel(void** cursor) {
  void** at = static_cast<void**>(*cursor);
  for (int i = 0; i < kSteps; ++i) at = static_cast<void**>(*at);
  *cursor = at;
}

/// The same with loads that bypass the L1 cache.
__global__ void walk_past_l1_kernel(unsigned long long* cursor) {
  unsigned long long at = *cursor;
  for (int i = 0; i < kSteps; ++i) at = __ldcg(reinterpret_cast<const unsigned long long*>(at));
  *cursor = at;
}

/// Grid: one CTA of one warp; lane 0 walks. Places are bytes from the beginning of shared memory.
__global__ void walk_in_shared_kernel(unsigned* cursor, int places) {
  auto* const next = kv::dynamic_shared<unsigned>();
  for (int i = static_cast<int>(threadIdx.x); i < places; i += 32) {
    next[i] = static_cast<unsigned>((i + 33) % places) * 4;
  }
  __syncthreads();
  if (threadIdx.x > 0) return;
  unsigned at = *cursor;
  for (int i = 0; i < kSteps; ++i) {
    at = *reinterpret_cast<const unsigned*>(reinterpret_cast<const char*>(next) + at);
  }
  *cursor = at;
}

__global__ void empty_kernel() {}

/// Median seconds of launch(). The first runs warm the caches up.
template <typename Launch>
double median_seconds(const kv::Stream& stream, const Launch& launch) {
  kv::Event begin(kv::Device::kCuda), end(kv::Device::kCuda);
  std::vector<double> seconds;
  for (int run = 0; run < 40; ++run) {
    begin.record(stream);
    launch();
    end.record(stream);
    end.wait();
    if (run >= 20) seconds.push_back(end.seconds_since(begin));
  }
  std::ranges::nth_element(seconds, seconds.begin() + 10);
  return seconds[10];
}

/// Fills host memory with a walk that visits every place once before it returns to the first. The
/// walker will see the memory at address `seen_at`.
std::vector<unsigned long long> random_walk(size_t bytes, unsigned long long seen_at) {
  const size_t places = bytes / kApart;
  std::vector<size_t> order(places);
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937_64(1));
  std::vector<unsigned long long> memory(bytes / sizeof(unsigned long long));
  for (size_t i = 0; i < places; ++i) {
    memory[order[i] * kApart / 8] = seen_at + order[(i + 1) % places] * kApart;
  }
  return memory;
}

double seconds_of_walk(From from, unsigned long long begin, const kv::Stream& stream) {
  const kv::DeviceBuffer cursor(kv::Device::kCuda, sizeof(begin));
  kv::copy_to_device(cursor.data(), &begin, sizeof(begin), stream);
  return median_seconds(stream, [&] {
    if (from == From::kL1) {
      kv::launch(walk_kernel, {.grid = dim3(1), .block = dim3(1), .name = "walking"}, stream,
                 cursor.as<void*>());
    } else {
      kv::launch(walk_past_l1_kernel, {.grid = dim3(1), .block = dim3(1), .name = "walking"},
                 stream, cursor.as<unsigned long long>());
    }
  });
}

double seconds_of_shared_walk(size_t bytes, const kv::Stream& stream) {
  const unsigned begin = 0;
  const kv::DeviceBuffer cursor(kv::Device::kCuda, sizeof(begin));
  kv::copy_to_device(cursor.data(), &begin, sizeof(begin), stream);
  return median_seconds(stream, [&] {
    kv::launch(walk_in_shared_kernel,
               {.grid = dim3(1), .block = dim3(32), .shared_bytes = bytes, .name = "walking"},
               stream, cursor.as<unsigned>(), static_cast<int>(bytes / sizeof(unsigned)));
  });
}

}  // namespace

double seconds_of_load(From from, size_t bytes) {
  const kv::Stream stream(kv::Device::kCuda);
  if (from == From::kShared) return seconds_of_shared_walk(bytes, stream) / kSteps;
  if (from == From::kHost) {
    const kv::HostBuffer memory(kv::Device::kCuda, bytes);
    const auto begin = reinterpret_cast<unsigned long long>(memory.data());
    std::ranges::copy(random_walk(bytes, begin), memory.as<unsigned long long>());
    return seconds_of_walk(from, begin, stream) / kSteps;
  }
  const kv::DeviceBuffer memory(kv::Device::kCuda, bytes);
  const auto begin = reinterpret_cast<unsigned long long>(memory.data());
  kv::copy_to_device(memory.data(), random_walk(bytes, begin).data(), bytes, stream);
  return seconds_of_walk(from, begin, stream) / kSteps;
}

double seconds_of_launch() {
  constexpr int kLaunches = 1000;
  const kv::Stream stream(kv::Device::kCuda);
  return median_seconds(stream,
                        [&] {
                          for (int i = 0; i < kLaunches; ++i) {
                            kv::launch(empty_kernel,
                                       {.grid = dim3(1), .block = dim3(32), .name = "launching"},
                                       stream);
                          }
                        }) /
         kLaunches;
}

Sizes sizes_of_device() {
  using kv::cuda_backend::device_limit;
  const auto bytes = [](cudaDeviceAttr attribute) {
    return static_cast<size_t>(device_limit(attribute));
  };
  return {.sms = kv::cuda_backend::num_sms(),
          .threads_per_sm = device_limit(cudaDevAttrMaxThreadsPerMultiProcessor),
          .registers_per_sm = bytes(cudaDevAttrMaxRegistersPerMultiprocessor) * 4,
          .shared_per_sm = bytes(cudaDevAttrMaxSharedMemoryPerMultiprocessor),
          .shared_per_cta = bytes(cudaDevAttrMaxSharedMemoryPerBlockOptin),
          .l2 = bytes(cudaDevAttrL2CacheSize)};
}

}  // namespace first_kernels
