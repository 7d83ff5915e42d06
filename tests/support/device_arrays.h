#pragma once

// Arrays for tests of kernels: random bf16 values, poisoned outputs, the way back, and equal bits.

#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "common/device.h"
#include "common/dtype.h"

namespace kvtest {

inline std::vector<kv::BFloat16> random_bf16(int64_t n, uint64_t seed, float scale = 1.0f) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<kv::BFloat16> values(static_cast<size_t>(n));
  for (kv::BFloat16& v : values) v = kv::to_bfloat16(normal(rng));
  return values;
}

inline std::vector<float> floats_of(std::span<const kv::BFloat16> values) {
  std::vector<float> out;
  out.reserve(values.size());
  for (const kv::BFloat16 v : values) out.push_back(kv::to_float(v));
  return out;
}

/// Equal bytes: -0 is not 0, and a NaN equals itself.
template <typename A, typename B = A>
bool same_bits(const A& a, const B& b) {
  const size_t bytes = a.size() * sizeof(*a.data());
  return a.size() == b.size() && (bytes == 0 || std::memcmp(a.data(), b.data(), bytes) == 0);
}

/// Bytes 0xFF: NaN as bf16 and as fp32, -1 as an integer. What a kernel leaves out is seen.
inline kv::DeviceBuffer poisoned(size_t bytes, const kv::Stream& stream, int byte = 0xFF) {
  kv::DeviceBuffer buffer(stream.device(), bytes);
  kv::fill_bytes(buffer.data(), byte, bytes, stream);
  return buffer;
}

/// Where memory would begin whose first bytes are absent: nothing reads or writes those.
inline void* without_first(void* memory, int64_t bytes) {
  return reinterpret_cast<void*>(reinterpret_cast<intptr_t>(memory) - bytes);
}

template <typename T>
std::vector<T> download(const void* device_src, size_t n, const kv::Stream& stream) {
  std::vector<T> host(n);
  kv::copy_to_host(host.data(), device_src, n * sizeof(T), stream);
  return host;
}

template <typename T>
kv::DeviceBuffer upload(const std::vector<T>& host, const kv::Stream& stream) {
  return kv::to_device(std::span<const T>(host), stream);
}

}  // namespace kvtest
