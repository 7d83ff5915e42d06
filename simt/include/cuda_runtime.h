#pragma once

// CUDA's words for a GPU that the CPU plays (simt/machine.h): what CUDA C++ adds to C++ in a
// kernel, and the part of the runtime's functions that the course calls. All work is done when a
// call returns, but for what a stream that captures keeps for its graph.

#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <new>
#include <vector>

#include "simt/exchange.h"
#include "simt/machine.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __constant__ static
// A worker runs one CTA at a time, so what a worker has once, a CTA has once. The address sanitizer
// and the tracer know plain static variables only: for them there is one worker.
#if defined(SIMT_ASAN) || defined(SIMT_TRACE)
#define __shared__ static
#else
#define __shared__ thread_local
#endif

inline constexpr int warpSize = 32;

// --- vectors

struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

// --- waiting, and exchanges in a warp

inline void __syncthreads(simt::Where where = simt::Where::here()) {
  simt::meet({.name = "__syncthreads()", .where = where});
}
inline void __syncwarp(unsigned mask = ~0u, simt::Where where = simt::Where::here()) {
  simt::meet({.name = "__syncwarp()", .where = where, .mask = mask});
}

namespace simt {

/// A value of at most 8 bytes on its way through a warp.
template <class T>
uint64_t bits_of(T value) {
  static_assert(sizeof(T) <= 8);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T>
T value_of(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
/// f(a, b) over the values of all lanes in `mask`, in the order of lanes.
template <class T, class F>
T combine(const char* name, unsigned mask, T value, Where where, F f) {
  const std::array<uint64_t, 32> all = gather(name, mask, bits_of(value), where);
  T result = value_of<T>(all[static_cast<size_t>(std::countr_zero(mask))]);
  for (unsigned rest = mask & (mask - 1); rest != 0; rest &= rest - 1) {
    result = f(result, value_of<T>(all[static_cast<size_t>(std::countr_zero(rest))]));
  }
  return result;
}

}  // namespace simt

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              simt::Where where = simt::Where::here()) {
  const auto w = static_cast<unsigned>(width);
  const unsigned from = (simt::lane() & ~(w - 1)) | (static_cast<unsigned>(source) & (w - 1));
  return simt::value_of<T>(simt::shuffle("__shfl_sync()", mask, simt::bits_of(value), from, where));
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 simt::Where where = simt::Where::here()) {
  const unsigned lane = simt::lane();
  const unsigned from = lane % static_cast<unsigned>(width) < delta ? lane : lane - delta;
  return simt::value_of<T>(
      simt::shuffle("__shfl_up_sync()", mask, simt::bits_of(value), from, where));
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   simt::Where where = simt::Where::here()) {
  const unsigned lane = simt::lane(), w = static_cast<unsigned>(width);
  const unsigned from = lane % w + delta >= w ? lane : lane + delta;
  return simt::value_of<T>(
      simt::shuffle("__shfl_down_sync()", mask, simt::bits_of(value), from, where));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32,
                  simt::Where where = simt::Where::here()) {
  const unsigned lane = simt::lane(), w = static_cast<unsigned>(width);
  const unsigned other = lane ^ static_cast<unsigned>(bits);
  return simt::value_of<T>(simt::shuffle("__shfl_xor_sync()", mask, simt::bits_of(value),
                                         other / w > lane / w ? lane : other, where));
}
inline unsigned __ballot_sync(unsigned mask, int yes, simt::Where where = simt::Where::here()) {
  return simt::combine("__ballot_sync()", mask, unsigned{yes != 0} << simt::lane(), where,
                       std::bit_or<>());
}
inline int __any_sync(unsigned mask, int yes, simt::Where where = simt::Where::here()) {
  return simt::combine("__any_sync()", mask, int{yes != 0}, where, std::bit_or<>());
}
inline int __all_sync(unsigned mask, int yes, simt::Where where = simt::Where::here()) {
  return simt::combine("__all_sync()", mask, int{yes != 0}, where, std::bit_and<>());
}
template <class T>
T __reduce_add_sync(unsigned mask, T value, simt::Where where = simt::Where::here()) {
  return simt::combine("__reduce_add_sync()", mask, value, where, std::plus<>());
}
template <class T>
T __reduce_max_sync(unsigned mask, T value, simt::Where where = simt::Where::here()) {
  return simt::combine("__reduce_max_sync()", mask, value, where,
                       [](T a, T b) { return a > b ? a : b; });
}

// --- memory

namespace simt {
template <class T, class F>
T atomic(T* address, F next) {
  std::atomic_ref<T> ref(*address);
  T old = ref.load(std::memory_order_relaxed);
  while (!ref.compare_exchange_weak(old, next(old), std::memory_order_relaxed)) {
  }
  return old;
}
}  // namespace simt

template <class T>
T atomicAdd(T* address, std::type_identity_t<T> x) {
  return simt::atomic(address, [x](T old) { return old + x; });
}
template <class T>
T atomicMax(T* address, std::type_identity_t<T> x) {
  return simt::atomic(address, [x](T old) { return old > x ? old : x; });
}
template <class T>
T atomicExch(T* address, std::type_identity_t<T> x) {
  return simt::atomic(address, [x](T) { return x; });
}
template <class T>
T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> x) {
  return simt::atomic(address, [=](T old) { return old == expected ? x : old; });
}
inline unsigned atomicInc(unsigned* address, unsigned limit) {
  return simt::atomic(address, [=](unsigned old) { return old >= limit ? 0 : old + 1; });
}
inline void __threadfence() { simt::fence(); }
template <class T>
T __ldg(const T* address) {
  return *address;
}
template <class T>
T __ldcg(const T* address) {
  return *address;
}

// --- arithmetic: the host's, near the GPU's but not its bits

inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
template <class A, class B>
constexpr std::common_type_t<A, B> min(A a, B b) {
  using C = std::common_type_t<A, B>;
  return static_cast<C>(b) < static_cast<C>(a) ? static_cast<C>(b) : static_cast<C>(a);
}
template <class A, class B>
constexpr std::common_type_t<A, B> max(A a, B b) {
  using C = std::common_type_t<A, B>;
  return static_cast<C>(a) < static_cast<C>(b) ? static_cast<C>(b) : static_cast<C>(a);
}

// --- errors: CUDA's own numbers

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorStubLibrary = 34,
  cudaErrorInsufficientDriver = 35,
  cudaErrorDevicesUnavailable = 46,
  cudaErrorInvalidDeviceFunction = 98,
  cudaErrorNoDevice = 100,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorUnsupportedPtxVersion = 222,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchOutOfResources = 701,
  cudaErrorLaunchTimeout = 702,
  cudaErrorAssert = 710,
  cudaErrorHardwareStackError = 714,
  cudaErrorIllegalInstruction = 715,
  cudaErrorMisalignedAddress = 716,
  cudaErrorInvalidAddressSpace = 717,
  cudaErrorInvalidPc = 718,
  cudaErrorLaunchFailure = 719,
  cudaErrorSystemDriverMismatch = 803,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorUnknown = 999
};
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char* cudaGetErrorName(cudaError_t e) {
  return e == cudaErrorMemoryAllocation       ? "cudaErrorMemoryAllocation"
         : e == cudaErrorInvalidConfiguration ? "cudaErrorInvalidConfiguration"
                                              : "cudaError";
}
inline const char* cudaGetErrorString(cudaError_t e) {
  return e == cudaErrorMemoryAllocation       ? "out of memory"
         : e == cudaErrorInvalidConfiguration ? "invalid configuration argument"
                                              : "an error of the simulated GPU";
}

// --- the device, and what it says of kernels

struct cudaDeviceProp {
  char name[256];
  int major, minor;
  size_t totalGlobalMem;
};
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrL2CacheSize = 38,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
struct cudaFuncAttributes {};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

inline cudaError_t cudaGetDeviceCount(int* n) { return *n = 1, cudaSuccess; }
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaDriverGetVersion(int* version) { return *version = 12000, cudaSuccess; }
inline cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 12000, cudaSuccess; }
inline cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return *free = simt::free_bytes(), *total = simt::options().memory, cudaSuccess;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  return *p = {"simulated GPU", 8, 0, simt::options().memory}, cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = static_cast<int>(simt::options().workers);
      break;
    case cudaDevAttrL2CacheSize:
      *value = 1 << 20;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 8;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = 227 << 10;
      break;
  }
  return cudaSuccess;
}
template <class F>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, F) {
  return cudaSuccess;
}
template <class F>
cudaError_t cudaFuncSetAttribute(F, cudaFuncAttribute, int) {
  return cudaSuccess;
}

// --- streams, events and graphs: a graph is a list of work

using SimtWork = std::vector<std::function<void()>>;
struct CUstream_st {
  bool captures = false;
  SimtWork work;
};
struct CUevent_st {
  std::chrono::steady_clock::time_point at;
};
using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;
using cudaGraph_t = SimtWork*;
using cudaGraphExec_t = SimtWork*;
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };

namespace simt {
template <class F>
cudaError_t submit(cudaStream_t stream, F&& work) {
  if (stream != nullptr && stream->captures) {
    stream->work.emplace_back(std::forward<F>(work));
  } else {
    work();
  }
  return cudaSuccess;
}
}  // namespace simt

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return *stream = new CUstream_st, cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) { return delete stream, cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return simt::host_waits(), cudaSuccess; }
inline cudaError_t cudaDeviceSynchronize() { return simt::host_waits(), cudaSuccess; }
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return *event = new CUevent_st, cudaSuccess;
}
inline cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, 0);
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return simt::host_waits(), cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t = nullptr) {
  return event->at = std::chrono::steady_clock::now(), cudaSuccess;
}
inline cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t a, cudaEvent_t b) {
  return *ms = std::chrono::duration<float, std::milli>(b->at - a->at).count(), cudaSuccess;
}
inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  return stream->captures = true, cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  stream->captures = false;
  return *graph = new SimtWork(std::exchange(stream->work, {})), cudaSuccess;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned) {
  return *exec = new SimtWork(*graph), cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return delete exec, cudaSuccess; }
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t) {
  for (const auto& work : *exec) work();
  return cudaSuccess;
}

// --- memory of the device

enum cudaMemcpyKind {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice
};
inline cudaError_t cudaMalloc(void** p, size_t bytes) {
  *p = simt::malloc_device(bytes);
  return *p != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
inline cudaError_t cudaMallocHost(void** p, size_t bytes) { return cudaMalloc(p, bytes); }
inline cudaError_t cudaFree(void* p) { return simt::free_device(p), cudaSuccess; }
inline cudaError_t cudaFreeHost(void* p) { return cudaFree(p); }
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                                   cudaStream_t stream) {
  return simt::submit(stream, [=] { simt::host_waits(), std::memcpy(to, from, bytes); });
}
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}
inline cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t stream) {
  return simt::submit(stream, [=] { simt::host_waits(), std::memset(p, value, bytes); });
}

// --- launches

enum cudaLaunchAttributeID {
  cudaLaunchAttributeClusterDimension = 4,
  cudaLaunchAttributeProgrammaticStreamSerialization = 6
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    struct {
      unsigned x, y, z;
    } clusterDim;
    int programmaticStreamSerializationAllowed;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};
template <class... Params, class... Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Params...),
                               Args&&... args) {
  simt::Grid grid{
      .size = config->gridDim, .block = config->blockDim, .shared_bytes = config->dynamicSmemBytes};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config->attrs[i];
    grid.overlaps |= attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization &&
                     attribute.val.programmaticStreamSerializationAllowed != 0;
  }
  if (grid.num_ctas() == 0 || grid.num_threads() == 0 || grid.num_threads() > 1024 ||
      grid.shared_bytes > 227 << 10) {
    return cudaErrorInvalidConfiguration;
  }
  return simt::submit(config->stream, [=, ... args = static_cast<Params>(args)] {
    simt::launch(kernel, grid, args...);
  });
}
inline void cudaTriggerProgrammaticLaunchCompletion() {}
inline void cudaGridDependencySynchronize() { simt::wait_for_predecessors(); }
