#include "tools/copy_bandwidth.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <vector>

#include "common/base/device.h"
#include "common/base/error.h"

namespace bench {
namespace {

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    throw kv::DeviceError(std::string(what) + " failed: " + cudaGetErrorString(error));
  }
}

}  // namespace

double copy_bandwidth() {
  constexpr size_t kBytes = size_t{1} << 31;  // far more than the L2 cache holds
  const kv::Stream stream(kv::Device::kCuda);
  const kv::DeviceBuffer from(kv::Device::kCuda, kBytes);
  const kv::DeviceBuffer to(kv::Device::kCuda, kBytes);
  kv::fill_bytes(from.data(), 0x5A, kBytes, stream);
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "creating an event");
  check(cudaEventCreate(&end), "creating an event");
  std::vector<float> milliseconds(9);
  for (float& ms : milliseconds) {
    check(cudaEventRecord(begin, stream.handle()), "recording an event");
    check(
        cudaMemcpyAsync(to.data(), from.data(), kBytes, cudaMemcpyDeviceToDevice, stream.handle()),
        "copying on the device");
    check(cudaEventRecord(end, stream.handle()), "recording an event");
    stream.synchronize();
    check(cudaEventElapsedTime(&ms, begin, end), "reading an event");
  }
  check(cudaEventDestroy(begin), "destroying an event");
  check(cudaEventDestroy(end), "destroying an event");
  std::sort(milliseconds.begin(), milliseconds.end());
  return 2.0 * kBytes / (milliseconds[milliseconds.size() / 2] * 1e-3);
}

}  // namespace bench
