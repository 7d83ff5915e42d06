#pragma once

// How kernels are launched. With launch() the kernel starts when all work queued before it is
// complete. launch_dependent() is programmatic dependent launch (PDL, sm_90 and later): the next
// kernel's CTAs are already on the chip, with their weights in flight, when this one ends. Both
// may follow each other in one stream.
//
// The rule for launch_dependent(). Its kernel may start while its predecessors still run, so in
// every thread it
//   1. calls let_successors_start() early, at best first: this lets the next kernel start and
//      promises nothing about memory;
//   2. before wait_for_predecessors() reads only data that was complete when the last launch()
//      before it began, or that no kernel writes: its weights, the pass's token ids and lengths, K
//      and V of earlier passes. A pass begins with a copy to the device and a launch(), which both
//      wait for all work before them. It writes nothing to global memory, because a predecessor may
//      still be reading there;
//   3. calls wait_for_predecessors() on every path, also in a CTA that has nothing to do. A kernel
//      is complete only when all its CTAs have waited, so "my predecessor is complete" means "all
//      before me are complete". A kernel that skipped the wait would break this chain for its
//      successors, and the fault would show far from its cause.
// A kernel that never calls let_successors_start() lets the next one start when its last CTA has
// ended. This promises nothing about memory either: its last writes may not be visible yet. Where
// the next kernel would read them before it waits, launch_barrier() goes between the two.
//
// Both calls do nothing on sm_80, where kernels run one after the other.
//
// The edges survive stream capture: a captured pass replays with the same overlap.

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

#include "common/device.h"

namespace kv {

namespace cuda_backend {
/// Throws DeviceError with one clear line for a failed CUDA call; `error` is a cudaError_t and
/// `what` says what was being done ("launching matmul"). Defined beside the device layer.
[[noreturn]] void throw_error(int error, const char* what);

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw_error(error, what);
}

/// A device attribute of the current device.
inline int device_limit(cudaDeviceAttr attribute) {
  int device = 0;
  int value = 0;
  check(cudaGetDevice(&device), "asking for the current device");
  check(cudaDeviceGetAttribute(&value, attribute, device), "asking for the device's limits");
  return value;
}
inline int num_sms() {
  static const int count = device_limit(cudaDevAttrMultiProcessorCount);
  return count;
}
/// Major compute capability, asked once.
inline int compute_major() {
  static const int major = device_limit(cudaDevAttrComputeCapabilityMajor);
  return major;
}
/// True if a kernel may start before its predecessor ends. A simulated GPU runs kernels one after
/// the other, but reports reads that would have come too early.
inline bool overlaps_kernels() {
#ifdef KV_SIMT
  return true;
#else
  return compute_major() >= 9;
#endif
}
}  // namespace cuda_backend

/// Shape of a launch.
struct Launch {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;    // dynamic shared memory
  const char* name = "";      // for messages
  unsigned cluster_ctas = 1;  // neighbours along x that share their memory (sm_90 and later)
};

namespace cuda_backend {
inline cudaLaunchConfig_t config_of(const Launch& launch, const Stream& stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = launch.grid;
  config.blockDim = launch.block;
  config.dynamicSmemBytes = launch.shared_bytes;
  config.stream = stream.handle();
  return config;
}
}  // namespace cuda_backend

/// Queues `kernel` after the stream's work.
template <typename... Params, typename... Args>
void launch(void (*kernel)(Params...), const Launch& launch, const Stream& stream, Args&&... args) {
  const cudaLaunchConfig_t config = cuda_backend::config_of(launch, stream);
  cuda_backend::check(
      cudaLaunchKernelEx(&config, kernel, static_cast<Params>(std::forward<Args>(args))...),
      launch.name);
}

/// Queues `kernel`, which obeys the rule above, after the stream's work.
template <typename... Params, typename... Args>
void launch_dependent(void (*kernel)(Params...), const Launch& launch, const Stream& stream,
                      Args&&... args) {
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {launch.cluster_ctas, 1, 1};
  cudaLaunchConfig_t config = cuda_backend::config_of(launch, stream);
  config.attrs = attributes;
  if (cuda_backend::overlaps_kernels()) config.numAttrs = launch.cluster_ctas > 1 ? 2 : 1;
  cuda_backend::check(
      cudaLaunchKernelEx(&config, kernel, static_cast<Params>(std::forward<Args>(args))...),
      launch.name);
}

/// Does nothing, and starts only after all work before it. A template, because kernels are not
/// inline.
template <typename = void>
__global__ void barrier_kernel() {}

/// Kernels queued after this may read the results of all work queued before it, even before they
/// call wait_for_predecessors().
inline void launch_barrier(const Stream& stream) {
  launch(barrier_kernel<>, {dim3(1), dim3(1), 0, "launching a barrier"}, stream);
}

/// Asks for more shared memory than the 48 KiB that a kernel gets by default. Returns true, so that
/// a static variable asks once.
template <class Kernel>
bool ask_for_shared(Kernel kernel, size_t bytes) {
  cuda_backend::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           static_cast<int>(bytes)),
                      "asking for a kernel's shared memory");
  return true;
}

/// The CTA's dynamic shared memory, aligned to 1,024 bytes as swizzled rows must be.
template <typename T>
__device__ inline T* dynamic_shared() {
#ifdef KV_SIMT
  return simt::dynamic_shared<T>();
#else
  extern __shared__ __align__(1024) unsigned char kv_dynamic_shared[];
  return reinterpret_cast<T*>(kv_dynamic_shared);
#endif
}

/// Lets the next kernel of the stream start once every CTA of this one has called it.
__device__ inline void let_successors_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/// Returns when everything queued before this kernel is complete and its writes are visible.
__device__ inline void wait_for_predecessors() {
#if defined(KV_SIMT) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900)
  cudaGridDependencySynchronize();
#endif
}

}  // namespace kv
