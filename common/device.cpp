#include "common/device.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "common/device_backend.h"
#include "common/error.h"
#include "common/parallel.h"

namespace kv {
namespace {

// Calls that need a CUDA build stand in an `if constexpr` of this; otherwise they would not link.
#if KV_HAVE_CUDA
constexpr bool kBuiltWithCuda = true;
#else
constexpr bool kBuiltWithCuda = false;
#endif
#ifdef KV_SIMT
constexpr bool kSimulated = true;  // the CPU plays the GPU; "auto" does not choose it
#else
constexpr bool kSimulated = false;
#endif

// A cache line, and the widest vector register.
constexpr size_t kHostAlignment = 64;

int64_t memory_bytes(int pages_name) {
  return int64_t{sysconf(pages_name)} * int64_t{sysconf(_SC_PAGESIZE)};
}

/// Null if there is not enough memory.
void* allocate_plain(size_t bytes) {
  const size_t rounded = (bytes + kHostAlignment - 1) / kHostAlignment * kHostAlignment;
  return std::aligned_alloc(kHostAlignment, rounded);
}

/// Refuses more than the machine has: the system would promise it, and end the program when the
/// memory is used.
template <class Allocate>
void* allocate_host(size_t bytes, const char* what, const char* advice, Allocate allocate) {
  void* const data =
      bytes <= static_cast<size_t>(memory_bytes(_SC_PHYS_PAGES)) ? allocate(bytes) : nullptr;
  if (data != nullptr) return data;
  throw DeviceError(fmt::format("{}: cannot allocate {} bytes, about {} are free; {}", what, bytes,
                                memory_bytes(_SC_AVPHYS_PAGES), advice));
}

/// Bytes available without swapping, including file caches that the system can drop.
int64_t available_host_bytes() {
  std::ifstream info("/proc/meminfo");
  for (std::string word; info >> word;) {
    int64_t kib = 0;
    if (word == "MemAvailable:" && info >> kib) return kib * 1024;
  }
  return memory_bytes(_SC_AVPHYS_PAGES);
}

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

}  // namespace

std::string why_no_cuda() {
  if constexpr (kBuiltWithCuda) return cuda_backend::why_unavailable();
  return "this build has no CUDA code; COURSE_PRESET=cuda makes one that has it";
}

bool cuda_available() { return kBuiltWithCuda && why_no_cuda().empty(); }

Device resolve_device(std::string_view wanted) {
  if (wanted == "cpu") return Device::kCpu;
  if (wanted == "auto") return cuda_available() && !kSimulated ? Device::kCuda : Device::kCpu;
  if (wanted != "cuda") {
    user_error("--device: '{}' is not a device; use cpu, cuda or auto", wanted);
  }
  if (!cuda_available()) {
    throw DeviceError(fmt::format("--device cuda: {}; or use --device cpu", why_no_cuda()));
  }
  return Device::kCuda;
}

int cuda_version() {
  if constexpr (kBuiltWithCuda) return cuda_backend::runtime_version();
  return 0;
}

std::string describe(Device device) {
  if (device == Device::kCuda) {
    if constexpr (kBuiltWithCuda) return cuda_backend::describe();
    return why_no_cuda();
  }
  const int threads = num_threads();
  return fmt::format("{}, {} thread{}", cpu_name(), threads, threads == 1 ? "" : "s");
}

DeviceMemory memory_of(Device device) {
  if (device == Device::kCpu) {
    return {.free = available_host_bytes(), .total = memory_bytes(_SC_PHYS_PAGES)};
  }
  if (!cuda_available()) throw DeviceError("cuda memory: " + why_no_cuda());
  DeviceMemory memory;
  if constexpr (kBuiltWithCuda) cuda_backend::memory(memory.free, memory.total);
  return memory;
}

Stream::Stream(Device device) : device_(device) {
  if (device == Device::kCpu) return;
  if (!cuda_available()) throw DeviceError("cuda stream: " + why_no_cuda());
  if constexpr (kBuiltWithCuda) handle_ = cuda_backend::create_stream();
}

Stream::~Stream() {
  if constexpr (kBuiltWithCuda) {
    if (handle_ != nullptr) cuda_backend::destroy_stream(handle_);
  }
}

void Stream::synchronize() const {
  if constexpr (kBuiltWithCuda) {
    if (device_ == Device::kCuda) cuda_backend::synchronize(handle_);
  }
}

Event::Event(Device device) {
  if (device == Device::kCpu) return;
  if (!cuda_available()) throw DeviceError("cuda event: " + why_no_cuda());
  if constexpr (kBuiltWithCuda) handle_.reset(cuda_backend::create_event());
}

void Event::Destroy::operator()(CUevent_st* event) const noexcept {
  if constexpr (kBuiltWithCuda) cuda_backend::destroy_event(event);
}

void Event::record(const Stream& stream) {
  if (handle_ == nullptr) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    moment_ = std::chrono::duration<double>(now).count();
  } else if constexpr (kBuiltWithCuda) {
    cuda_backend::record(handle_.get(), stream.handle());
  }
}

bool Event::done() const {
  if constexpr (kBuiltWithCuda) return handle_ == nullptr || cuda_backend::is_done(handle_.get());
  return true;
}

void Event::wait() const {
  if constexpr (kBuiltWithCuda) {
    if (handle_ != nullptr) cuda_backend::wait(handle_.get());
  }
}

void Event::let_wait(const Stream& stream) const {
  if constexpr (kBuiltWithCuda) {
    if (handle_ != nullptr) cuda_backend::let_wait(stream.handle(), handle_.get());
  }
}

double Event::seconds_since(const Event& earlier) const {
  if constexpr (kBuiltWithCuda) {
    if (handle_ != nullptr) {
      return cuda_backend::seconds_between(earlier.handle_.get(), handle_.get());
    }
  }
  return moment_ - earlier.moment_;
}

DeviceBuffer::DeviceBuffer(Device device, size_t bytes) : device_(device), bytes_(bytes) {
  if (bytes == 0) return;
  if (device == Device::kCpu) {
    data_ =
        allocate_host(bytes, "cpu memory",
                      "use a shorter sequence, a smaller batch or a smaller model", allocate_plain);
    return;
  }
  if (!cuda_available()) throw DeviceError("cuda memory: " + why_no_cuda());
  if constexpr (kBuiltWithCuda) data_ = cuda_backend::allocate(bytes);
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ == nullptr) return;
  if (device_ == Device::kCpu)
    std::free(data_);
  else if constexpr (kBuiltWithCuda)
    cuda_backend::release(data_);
}

HostBuffer::HostBuffer(Device device, size_t bytes) : data_(nullptr, {device}), bytes_(bytes) {
  if (bytes == 0) return;
  constexpr const char* kAdvice = "ask for less of it, or stop what else uses it";
  if (device == Device::kCpu) {
    data_.reset(allocate_host(bytes, "host memory", kAdvice, allocate_plain));
    return;
  }
  if (!cuda_available()) throw DeviceError("pinned host memory: " + why_no_cuda());
  if constexpr (kBuiltWithCuda) {
    data_.reset(allocate_host(bytes, "pinned host memory", kAdvice, cuda_backend::allocate_pinned));
  }
}

void HostBuffer::Release::operator()(void* data) const noexcept {
  if (device == Device::kCpu)
    std::free(data);
  else if constexpr (kBuiltWithCuda)
    cuda_backend::release_pinned(data);
}

void copy_to_device(void* device_dst, const void* host_src, size_t bytes, const Stream& stream) {
  if (bytes == 0) return;
  if (stream.device() == Device::kCpu)
    std::memcpy(device_dst, host_src, bytes);
  else if constexpr (kBuiltWithCuda)
    cuda_backend::copy_to_device(device_dst, host_src, bytes, stream.handle());
}

void copy_to_host(void* host_dst, const void* device_src, size_t bytes, const Stream& stream) {
  if (bytes == 0) return;
  if (stream.device() == Device::kCpu)
    std::memcpy(host_dst, device_src, bytes);
  else if constexpr (kBuiltWithCuda)
    cuda_backend::copy_to_host(host_dst, device_src, bytes, stream.handle());
}

void copy_to_device_async(void* device_dst, const void* host_src, size_t bytes,
                          const Stream& stream) {
  if (bytes == 0) return;
  if (stream.device() == Device::kCpu)
    std::memcpy(device_dst, host_src, bytes);
  else if constexpr (kBuiltWithCuda)
    cuda_backend::copy_to_device_async(device_dst, host_src, bytes, stream.handle());
}

void fill_bytes(void* device_dst, int value, size_t bytes, const Stream& stream) {
  if (bytes == 0) return;
  if (stream.device() == Device::kCpu)
    std::memset(device_dst, value, bytes);
  else if constexpr (kBuiltWithCuda)
    cuda_backend::fill_bytes(device_dst, value, bytes, stream.handle());
}

}  // namespace kv
