#pragma once

// The CUDA functions that device.cpp calls. device_cuda.cu defines them; a build without CUDA does
// not have them and never calls them. Internal: programs and lessons include common/device.h.

#include <cstddef>
#include <cstdint>
#include <string>

struct CUstream_st;
struct CUevent_st;

namespace kv::cuda_backend {

/// Empty if this build has code for a present, working device. Otherwise one line with the reason
/// (no device, driver too old, architecture too old, ...). Probed once, then remembered.
std::string why_unavailable();

/// "NVIDIA H200, sm_90, 139 GiB". Only called when why_unavailable() is empty.
std::string describe();

/// The version of this build's CUDA runtime, 13000 for 13.0.
int runtime_version();

// Everything below throws DeviceError: the call that failed, CUDA's reason, and what to do.

/// Bytes on the current device.
void memory(int64_t& free_bytes, int64_t& total_bytes);

CUstream_st* create_stream();  // non-blocking: does not wait for the legacy default stream
void destroy_stream(CUstream_st* stream) noexcept;
void synchronize(CUstream_st* stream);

CUevent_st* create_event();  // with timing
void destroy_event(CUevent_st* event) noexcept;
void record(CUevent_st* event, CUstream_st* stream);
bool is_done(CUevent_st* event);
void wait(CUevent_st* event);
void let_wait(CUstream_st* stream, CUevent_st* event);
double seconds_between(CUevent_st* begin, CUevent_st* end);

/// At least 256-byte aligned. The message of a failure holds the bytes asked for and the bytes
/// free.
void* allocate(size_t bytes);
void release(void* data) noexcept;
/// Null if the host does not have enough memory.
void* allocate_pinned(size_t bytes);
void release_pinned(void* data) noexcept;

// As documented at the functions of the same name in common/device.h; `bytes` is never 0.
void copy_to_device(void* device_dst, const void* host_src, size_t bytes, CUstream_st* stream);
void copy_to_host(void* host_dst, const void* device_src, size_t bytes, CUstream_st* stream);
void copy_to_device_async(void* device_dst, const void* host_src, size_t bytes,
                          CUstream_st* stream);
void fill_bytes(void* device_dst, int value, size_t bytes, CUstream_st* stream);

}  // namespace kv::cuda_backend
