#pragma once

// Turns a failed CUDA call into one line for people. No CUDA type appears here, so every line can
// be tested without a GPU. Internal.

#include <cstddef>
#include <string>

namespace kv::cuda_backend {

/// The codes with a line of their own: values of cudaError_t, which never change. device_cuda.cu
/// checks them against the toolkit's.
enum CudaCode : int {
  kMemoryAllocation = 2,
  kStubLibrary = 34,
  kInsufficientDriver = 35,
  kDevicesUnavailable = 46,
  kInvalidDeviceFunction = 98,
  kNoDevice = 100,
  kNoKernelImageForDevice = 209,
  kUnsupportedPtxVersion = 222,
  kIllegalAddress = 700,
  kLaunchTimeout = 702,
  kAssert = 710,
  kHardwareStackError = 714,
  kIllegalInstruction = 715,
  kMisalignedAddress = 716,
  kInvalidAddressSpace = 717,
  kInvalidPc = 718,
  kLaunchFailure = 719,
  kSystemDriverMismatch = 803,
};

/// Facts about a failed call. Unknown fields keep their defaults.
struct CudaFailure {
  int code = 0;             // cudaError_t
  std::string name;         // "cudaErrorIllegalAddress"
  std::string reason;       // "an illegal memory access was encountered"
  std::string call;         // what was being done: "launching matmul"
  size_t bytes_asked = 0;   // of an allocation
  size_t bytes_free = 0;    // on the device, when it failed
  int driver_version = 0;   // newest CUDA the driver supports: 13000 is 13.0; 0 is no driver
  int runtime_version = 0;  // of the CUDA runtime in this build
  std::string device;       // "NVIDIA H200"
  int device_arch = 0;      // 90 is sm_90
  std::string built_for;    // "sm_80, sm_90"
};

/// True if the failure destroyed the process's CUDA context: every later call fails, too.
bool is_sticky(int code);

/// One line: what was being done, what was found, what to do.
std::string explain(const CudaFailure& failure);

/// "13.0" of 13000.
std::string version_text(int version);

/// "sm_80, sm_90" of nvcc's list "800,900".
std::string architectures_text(const std::string& arch_list);

}  // namespace kv::cuda_backend
