#pragma once

// tensor_core.cuh for a GPU that the CPU simulates; the comments are there.

#include <cuda_runtime.h>

#include <bit>
#include <cstdint>

#include "simt/exchange.h"

namespace kv {

inline char* at_shared(uint32_t address) {
  return simt::dynamic_shared<char>() + static_cast<int32_t>(address);
}
inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(static_cast<const char*>(pointer) - simt::dynamic_shared<char>());
}
template <uint32_t kSelectors>
inline uint32_t permute_bytes(uint32_t a, uint32_t b) {
  const uint64_t from = uint64_t{b} << 32 | a;
  uint32_t bytes = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t selector = kSelectors >> 4 * i & 0xF;
    const auto byte = static_cast<uint8_t>(from >> 8 * (selector & 7));
    const uint32_t sign = (byte & 0x80) != 0 ? 0xFF : 0;
    bytes |= (selector < 8 ? byte : sign) << 8 * i;
  }
  return bytes;
}
inline uint32_t multiply_pairs(uint32_t a, uint32_t b) {
  const auto product = [](uint32_t x, uint32_t y) {
    return std::bit_cast<uint32_t>(std::bit_cast<float>(x) * std::bit_cast<float>(y)) >> 16;
  };
  return product(a << 16, b << 16) | product(a & 0xFFFF0000u, b & 0xFFFF0000u) << 16;
}
inline void mma_step(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  simt::mma_m16n8k16(d, a, b0, b1);
}
inline void mma_step(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                     uint32_t b1) {
  simt::mma_m16n8k16(d, {a0, a1, a2, a3}, b0, b1);
}
inline void load_matrices(uint32_t (&r)[4], const void* row) {
  simt::load_matrices(r, row, /*transposed=*/false);
}
inline void load_transposed(uint32_t (&r)[4], uint32_t row) {
  simt::load_matrices(r, at_shared(row), /*transposed=*/true);
}
inline float exp2_fast(float x) { return exp2f(x); }
inline float load_now(const float* from) { return *from; }
inline void copy_16(void* to, const void* from, bool valid) {
  simt::start_copy_16(to, valid ? from : nullptr);
}
inline void copy_16_of_128(uint32_t to, const void* from, bool valid) {
  copy_16(at_shared(to), from, valid);
}
inline void commit_copies() { simt::commit_copies(); }
template <int kPending>
inline void wait_for_copies() {
  simt::wait_for_copies(kPending);
}
inline void init_mbarrier(uint64_t* barrier, int arrivals) {
  simt::init_mbarrier(barrier, arrivals);
}
inline void sync_two_warps(int number) { simt::sync_two_warps(number); }
inline void arrive_with_copies(uint64_t* barrier) { simt::arrive_with_copies(barrier); }
inline void wait_for_phase(uint64_t* barrier, int parity) { simt::wait_for_phase(barrier, parity); }

}  // namespace kv
