// The CUDA side of common/device.h: streams, memory, copies, and their error messages.

#include <cuda_runtime.h>

#include <array>
#include <cstring>
#include <mutex>
#include <string>

#include "common/device_backend.h"
#include "common/device_errors.h"
#include "common/error.h"

#define KV_TEXT_OF(...) #__VA_ARGS__
#define KV_EXPANDED_TEXT_OF(...) KV_TEXT_OF(__VA_ARGS__)

namespace kv::cuda_backend {

[[noreturn]] void throw_error(int error, const char* what);  // also declared in kernels/launch.cuh

namespace {

static_assert(int{kMemoryAllocation} == int{cudaErrorMemoryAllocation});
static_assert(int{kStubLibrary} == int{cudaErrorStubLibrary});
static_assert(int{kInsufficientDriver} == int{cudaErrorInsufficientDriver});
static_assert(int{kDevicesUnavailable} == int{cudaErrorDevicesUnavailable});
static_assert(int{kInvalidDeviceFunction} == int{cudaErrorInvalidDeviceFunction});
static_assert(int{kNoDevice} == int{cudaErrorNoDevice});
static_assert(int{kNoKernelImageForDevice} == int{cudaErrorNoKernelImageForDevice});
static_assert(int{kUnsupportedPtxVersion} == int{cudaErrorUnsupportedPtxVersion});
static_assert(int{kIllegalAddress} == int{cudaErrorIllegalAddress});
static_assert(int{kLaunchTimeout} == int{cudaErrorLaunchTimeout});
static_assert(int{kAssert} == int{cudaErrorAssert});
static_assert(int{kHardwareStackError} == int{cudaErrorHardwareStackError});
static_assert(int{kIllegalInstruction} == int{cudaErrorIllegalInstruction});
static_assert(int{kMisalignedAddress} == int{cudaErrorMisalignedAddress});
static_assert(int{kInvalidAddressSpace} == int{cudaErrorInvalidAddressSpace});
static_assert(int{kInvalidPc} == int{cudaErrorInvalidPc});
static_assert(int{kLaunchFailure} == int{cudaErrorLaunchFailure});
static_assert(int{kSystemDriverMismatch} == int{cudaErrorSystemDriverMismatch});

/// Grid: never launched. Reading its attributes fails if this build has no code for the device.
__global__ void probe_kernel() {}

CudaFailure failure_of(cudaError_t error, const char* call) {
  CudaFailure f;
  f.code = error;
  f.name = cudaGetErrorName(error);
  f.reason = cudaGetErrorString(error);
  f.call = call;
  cudaDriverGetVersion(&f.driver_version);
  cudaRuntimeGetVersion(&f.runtime_version);
  f.built_for = architectures_text(KV_EXPANDED_TEXT_OF(__CUDA_ARCH_LIST__));
  int device = 0;
  cudaDeviceProp properties{};
  if (cudaGetDevice(&device) == cudaSuccess &&
      cudaGetDeviceProperties(&properties, device) == cudaSuccess) {
    f.device = properties.name;
    f.device_arch = 10 * properties.major + properties.minor;
  }
  cudaGetLastError();  // clears the error, so that a later check does not report it
  return f;
}

void check(cudaError_t error, const char* call) {
  if (error != cudaSuccess) throw_error(error, call);
}

std::string probe() {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count == 0) error = cudaErrorNoDevice;
  if (error == cudaSuccess) error = cudaFree(nullptr);  // makes the context
  cudaFuncAttributes attributes{};
  if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, probe_kernel);
  return error == cudaSuccess ? "" : explain(failure_of(error, "starting CUDA"));
}

/// A ring of slots of pinned memory that small arrays pass through, so that their source can be
/// reused at once. A slot is free again when the copy out of it is complete.
class Staging {
 public:
  static constexpr size_t kSlotBytes = 256 * 1024;

  void copy(void* dst, const void* src, size_t bytes, cudaStream_t stream) {
    const std::scoped_lock lock(mutex_);
    Slot& slot = slots_[next_];
    next_ = (next_ + 1) % slots_.size();
    if (slot.data == nullptr) {
      check(cudaEventCreateWithFlags(&slot.done, cudaEventDisableTiming), "creating an event");
      check(cudaMallocHost(&slot.data, kSlotBytes), "allocating pinned memory");
    } else {
      check(cudaEventSynchronize(slot.done), "waiting for a copy to the GPU");
    }
    std::memcpy(slot.data, src, bytes);
    check(cudaMemcpyAsync(dst, slot.data, bytes, cudaMemcpyHostToDevice, stream),
          "queueing a copy to the GPU");
    check(cudaEventRecord(slot.done, stream), "recording an event");
  }

 private:
  struct Slot {
    void* data = nullptr;
    cudaEvent_t done = nullptr;
  };
  std::mutex mutex_;
  std::array<Slot, 16> slots_;
  size_t next_ = 0;
};

Staging& staging() {
  // Never destroyed: the CUDA runtime may be gone before static objects are.
  static Staging* const instance = new Staging;
  return *instance;
}

}  // namespace

void throw_error(int error, const char* what) {
  throw DeviceError(explain(failure_of(static_cast<cudaError_t>(error), what)));
}

std::string why_unavailable() {
  static const std::string reason = probe();
  return reason;
}

std::string describe() {
  int device = 0;
  cudaDeviceProp properties{};
  check(cudaGetDevice(&device), "asking for the current device");
  check(cudaGetDeviceProperties(&properties, device), "asking for the device's properties");
  constexpr size_t kGiB = size_t{1} << 30;
  return std::string(properties.name) + ", sm_" + std::to_string(properties.major) +
         std::to_string(properties.minor) + ", " +
         std::to_string(properties.totalGlobalMem / kGiB) + " GiB";
}

int runtime_version() {
  int version = 0;
  check(cudaRuntimeGetVersion(&version), "asking for the runtime's version");
  return version;
}

void memory(int64_t& free_bytes, int64_t& total_bytes) {
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "asking for the free memory");
  free_bytes = static_cast<int64_t>(free);
  total_bytes = static_cast<int64_t>(total);
}

CUstream_st* create_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
  return stream;
}

void destroy_stream(CUstream_st* stream) noexcept { cudaStreamDestroy(stream); }

void synchronize(CUstream_st* stream) {
  check(cudaStreamSynchronize(stream), "waiting for the GPU");
}

CUevent_st* create_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDefault), "creating an event");
  return event;
}

void destroy_event(CUevent_st* event) noexcept { cudaEventDestroy(event); }

void record(CUevent_st* event, CUstream_st* stream) {
  check(cudaEventRecord(event, stream), "recording an event");
}

bool is_done(CUevent_st* event) {
  const cudaError_t error = cudaEventQuery(event);
  if (error == cudaErrorNotReady) return false;
  check(error, "asking for an event");
  return true;
}

void wait(CUevent_st* event) { check(cudaEventSynchronize(event), "waiting for the GPU"); }

void let_wait(CUstream_st* stream, CUevent_st* event) {
  check(cudaStreamWaitEvent(stream, event, 0), "letting a stream wait");
}

double seconds_between(CUevent_st* begin, CUevent_st* end) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin, end), "reading an event");
  return 1e-3 * milliseconds;
}

void* allocate(size_t bytes) {
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, bytes);
  if (error == cudaSuccess) return data;
  CudaFailure f = failure_of(error, "allocating GPU memory");
  size_t total = 0;
  f.bytes_asked = bytes;
  if (cudaMemGetInfo(&f.bytes_free, &total) != cudaSuccess) f.bytes_free = 0;
  throw DeviceError(explain(f));
}

void release(void* data) noexcept { cudaFree(data); }

void* allocate_pinned(size_t bytes) {
  void* data = nullptr;
  const cudaError_t error = cudaMallocHost(&data, bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears the error, so that a later check does not report it
    return nullptr;
  }
  check(error, "allocating pinned host memory");
  return data;
}

void release_pinned(void* data) noexcept { cudaFreeHost(data); }

void copy_to_device(void* device_dst, const void* host_src, size_t bytes, CUstream_st* stream) {
  check(cudaMemcpyAsync(device_dst, host_src, bytes, cudaMemcpyHostToDevice, stream),
        "copying to the GPU");
  check(cudaStreamSynchronize(stream), "copying to the GPU");
}

void copy_to_host(void* host_dst, const void* device_src, size_t bytes, CUstream_st* stream) {
  check(cudaMemcpyAsync(host_dst, device_src, bytes, cudaMemcpyDeviceToHost, stream),
        "copying from the GPU");
  check(cudaStreamSynchronize(stream), "copying from the GPU");
}

void copy_to_device_async(void* device_dst, const void* host_src, size_t bytes,
                          CUstream_st* stream) {
  if (bytes > Staging::kSlotBytes) return copy_to_device(device_dst, host_src, bytes, stream);
  staging().copy(device_dst, host_src, bytes, stream);
}

void fill_bytes(void* device_dst, int value, size_t bytes, CUstream_st* stream) {
  check(cudaMemsetAsync(device_dst, value, bytes, stream), "filling GPU memory");
}

}  // namespace kv::cuda_backend
