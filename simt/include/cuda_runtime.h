#pragma once

// The part of the CUDA runtime that the course calls, for a GPU that the CPU plays; what is used
// inside a kernel is in simt/device_words.h. All work is done when a call returns, but for what
// a stream that captures keeps for its graph.

#include <chrono>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "simt/device_words.h"

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
  cudaErrorNotReady = 600,
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
inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, auto) { return cudaSuccess; }
inline cudaError_t cudaFuncSetAttribute(auto, cudaFuncAttribute, int) { return cudaSuccess; }

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
enum { cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventDisableTiming = 2 };
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
inline cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
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
    dim3 clusterDim;
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
