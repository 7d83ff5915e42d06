#pragma once

// Words that CUDA C++ adds to C++ inside a kernel, for a GPU that the CPU plays (simt/machine.h).

#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <type_traits>

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
/// The value of lane `source`.
template <class T>
T shuffle(const char* name, unsigned mask, T value, unsigned source, Where where) {
  return value_of<T>(shuffle_bits(name, mask, bits_of(value), source, where));
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
  return simt::shuffle("__shfl_sync()", mask, value, from, where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 simt::Where where = simt::Where::here()) {
  const bool inside = simt::lane() % static_cast<unsigned>(width) >= delta;
  return simt::shuffle("__shfl_up_sync()", mask, value, simt::lane() - (inside ? delta : 0), where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   simt::Where where = simt::Where::here()) {
  const auto w = static_cast<unsigned>(width);
  const bool inside = simt::lane() % w + delta < w;
  return simt::shuffle("__shfl_down_sync()", mask, value, simt::lane() + (inside ? delta : 0),
                       where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32,
                  simt::Where where = simt::Where::here()) {
  const unsigned other = simt::lane() ^ static_cast<unsigned>(bits),
                 w = static_cast<unsigned>(width);
  const bool inside = other / w <= simt::lane() / w;
  return simt::shuffle("__shfl_xor_sync()", mask, value, inside ? other : simt::lane(), where);
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
/// The lowest bit that is set, counted from 1; 0: none is.
inline int __ffs(int x) { return __builtin_ffs(x); }
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
inline auto __ldg(const auto* address) { return *address; }
inline auto __ldcg(const auto* address) { return *address; }

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
