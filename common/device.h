#pragma once

// Devices, which run arithmetic and hold memory. No CUDA header is needed to include this file.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "common/dtype.h"

struct CUstream_st;  // what cudaStream_t points to
struct CUevent_st;   // what cudaEvent_t points to

namespace kv {

enum class Device { kCpu, kCuda };

constexpr const char* name_of(Device d) { return d == Device::kCpu ? "cpu" : "cuda"; }

/// Activations and KV: fp32 on the CPU, bf16 on CUDA (accumulation is fp32 on both).
constexpr DType activation_dtype(Device d) {
  return d == Device::kCpu ? DType::kF32 : DType::kBF16;
}

/// The device that "cpu", "cuda" or "auto" names; "auto" is CUDA if a usable device is present.
/// Throws UserError for another word, and DeviceError for "cuda" without a usable device.
Device resolve_device(std::string_view wanted);

/// True if this build has CUDA code and a usable device is there.
bool cuda_available();

/// Empty if cuda_available(), else one line that says why not.
std::string why_no_cuda();

/// One line for people: "Intel Xeon, 2 threads" or "NVIDIA H200, sm_90, 139 GiB".
std::string describe(Device device);
/// The version of the CUDA toolkit that this build is of, 13000 for 13.0; 0 without CUDA.
int cuda_version();

/// Bytes of memory of a device: of the GPU, or of the machine.
struct DeviceMemory {
  int64_t free = 0;  // what could be allocated now, without what others use
  int64_t total = 0;
};
/// Throws DeviceError if the device cannot be asked.
DeviceMemory memory_of(Device device);

/// An ordered queue of work on one device. On the CPU the work runs immediately, and the handle is
/// null.
class Stream {
 public:
  explicit Stream(Device device);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device device() const { return device_; }
  CUstream_st* handle() const { return handle_; }
  /// Waits until everything queued is done. Throws DeviceError for a fault in it.
  void synchronize() const;

 private:
  Device device_;
  CUstream_st* handle_ = nullptr;
};

/// A point in a stream's work; move-only. On the CPU, where work runs immediately, it is a time.
class Event {
 public:
  explicit Event(Device device);
  /// Moves the event after the work queued on `stream` so far. `stream` is of the same device.
  void record(const Stream& stream);
  /// True if the work before the event is done, or if the event was never recorded.
  bool done() const;
  /// Blocks the host until done().
  void wait() const;
  /// Makes work queued on `stream` after this call wait for the event. The host does not wait.
  void let_wait(const Stream& stream) const;
  /// Seconds between the two events. Both must be done.
  double seconds_since(const Event& earlier) const;

 private:
  struct Destroy {
    void operator()(CUevent_st* event) const noexcept;
  };
  std::unique_ptr<CUevent_st, Destroy> handle_;  // none on the CPU
  double moment_ = 0;                            // seconds, on the CPU
};

/// Owns bytes on a device; move-only. Not initialised: tests fill it with a poison byte.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  /// Throws DeviceError, with the bytes asked for and the bytes free, if memory runs out.
  DeviceBuffer(Device device, size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    swap(other);
    return *this;
  }

  void* data() const { return data_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

 private:
  void swap(DeviceBuffer& o) {
    std::swap(device_, o.device_);
    std::swap(data_, o.data_);
    std::swap(bytes_, o.bytes_);
  }
  Device device_ = Device::kCpu;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

/// Owns bytes of the host that `device` reads and writes itself, by the same address: pinned memory
/// for CUDA, plain memory for the CPU. Move-only. Not initialised.
class HostBuffer {
 public:
  /// Throws DeviceError, with the bytes asked for and the bytes free, if memory runs out.
  HostBuffer(Device device, size_t bytes);

  void* data() const { return data_.get(); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data());
  }
  size_t bytes() const { return bytes_; }

 private:
  struct Release {
    Device device = Device::kCpu;
    void operator()(void* data) const noexcept;
  };
  std::unique_ptr<void, Release> data_;
  size_t bytes_ = 0;
};

/// Copies between the host and memory of `stream`'s device, and waits until it is done.
void copy_to_device(void* device_dst, const void* host_src, size_t bytes, const Stream& stream);
void copy_to_host(void* host_dst, const void* device_src, size_t bytes, const Stream& stream);
/// Queues a copy to the device. The source may be reused when the call returns: at most 256 KiB are
/// staged, and a larger copy waits. For the small per-pass arrays: token ids, positions, lengths.
void copy_to_device_async(void* device_dst, const void* host_src, size_t bytes,
                          const Stream& stream);
/// Sets every byte, in order with the stream's other work.
void fill_bytes(void* device_dst, int value, size_t bytes, const Stream& stream);

template <typename T>
DeviceBuffer to_device(std::span<const T> host, const Stream& stream) {
  DeviceBuffer buffer(stream.device(), host.size_bytes());
  if (!host.empty()) copy_to_device(buffer.data(), host.data(), host.size_bytes(), stream);
  return buffer;
}

/// Queues a copy of a small array into `buffer`, which grows when it is too small. The caller keeps
/// `buffer` alive until the queued work that reads it is done.
template <typename T>
const T* upload_async(std::span<const T> host, DeviceBuffer& buffer, const Stream& stream) {
  if (buffer.bytes() < host.size_bytes()) {
    stream.synchronize();  // queued work may still read the old buffer
    buffer = DeviceBuffer(stream.device(), 2 * host.size_bytes());
  }
  copy_to_device_async(buffer.data(), host.data(), host.size_bytes(), stream);
  return buffer.as<const T>();
}

/// Calls the twin of `op` that belongs to the stream's device. A build without CUDA has no CUDA
/// streams, so its calls always reach the CPU twin.
#if KV_HAVE_CUDA
#define KV_DISPATCH(op, args, stream) \
  ((stream).device() == ::kv::Device::kCuda ? op##_cuda((args), (stream)) : op##_cpu(args))
#else
#define KV_DISPATCH(op, args, stream) (static_cast<void>(stream), op##_cpu(args))
#endif

}  // namespace kv
