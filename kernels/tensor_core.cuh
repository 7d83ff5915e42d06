#pragma once

// Instructions that CUDA C++ has no function for: the tensor core step, pairs of bf16, asynchronous
// copies from global to shared memory, and the barrier at which they arrive. It holds all PTX that
// a simulated GPU can run; tensor_core_simulated.cuh has the simulated form.

#include <cuda_runtime.h>

#include <cstdint>

#ifdef KV_SIMT
#include <tensor_core_simulated.cuh>
#else

namespace kv {

/// An address in the CTA's shared memory, in the form that instructions take.
__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Picks four of the 8 bytes of a (0 to 3) and b (4 to 7). Bits 4 i .. 4 i + 3 of the selector name
/// byte i of the result. 8 plus a byte's number fills the byte with that byte's sign.
template <uint32_t kSelectors>
__device__ inline uint32_t permute_bytes(uint32_t a, uint32_t b) {
  uint32_t bytes;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "n"(kSelectors));
  return bytes;
}
/// Two products of bf16. They must be exact: a simulated GPU does not round.
__device__ inline uint32_t multiply_pairs(uint32_t a, uint32_t b) {
  uint32_t products;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(products) : "r"(a), "r"(b));
#else  // plus -0, which changes no product
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(products) : "r"(a), "r"(b), "r"(0x80008000u));
#endif
  return products;
}

/// d = a b + d, one m16n8k16 step in bf16 with fp32 sums: the one tensor core shape we use.
/// With g = lane / 4 and t = lane % 4, and two k per register (k and k + 1):
///   a[0] = A(g, 2t)   a[1] = A(g + 8, 2t)   a[2] = A(g, 2t + 8)   a[3] = A(g + 8, 2t + 8)
///   b0   = B(2t, g)   b1   = B(2t + 8, g)
///   d[0], d[1] = D(g, 2t), D(g, 2t + 1)     d[2], d[3] = D(g + 8, 2t), D(g + 8, 2t + 1)
/// Each element of D is its own sum over k: it does not depend on the other rows or columns.
__device__ inline void mma_step(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline void mma_step(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                uint32_t b0, uint32_t b1) {
  mma_step(d, {a0, a1, a2, a3}, b0, b1);
}

/// Four 8 x 8 matrices of 16-bit elements from shared memory. Lane l gives the address of row l % 8
/// (16 bytes) of matrix l / 8; lane 4 g + t gets the pair t of row g of matrix i in r[i].
__device__ inline void load_matrices(uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
/// Loads four matrices, each transposed; `row` is a shared address.
__device__ inline void load_transposed(uint32_t (&r)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}

/// 2^x; the result of -inf is 0.
__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// A load that the compiler cannot move.
__device__ inline float load_now(const float* from) {
  float x;
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(x) : "l"(from));
  return x;
}

/// Copies 16 bytes to shared memory in the background; writes zeros (and reads nothing) if !valid.
__device__ inline void copy_16(void* to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(valid ? 16 : 0)
               : "memory");
}
/// Copies 16 bytes to a shared address; the L2 cache fetches the 128 bytes around them.
__device__ inline void copy_16_of_128(uint32_t to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(valid ? 16 : 0)
               : "memory");
}
/// Closes a group of this thread's copies.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most `kPending` of this thread's groups are in flight. Other threads' copies are
/// visible after the barrier that must follow.
template <int kPending>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// A barrier of two warps; the CTA's barrier `number`, 1 to 15.
__device__ inline void sync_two_warps(int number) {
  asm volatile("bar.sync %0, 64;" ::"r"(number) : "memory");
}

/// A barrier in shared memory at which copies arrive; `arrivals` of them end a phase.
__device__ inline void init_mbarrier(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals)
               : "memory");
}
/// Arrives at the barrier when this thread's copies are complete.
__device__ inline void arrive_with_copies(uint64_t* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(barrier))
               : "memory");
}
/// Returns when the phase of this parity is over.
__device__ inline void wait_for_phase(uint64_t* barrier, int parity) {
  uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{\n.reg .pred p;\n"
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
        "mbarrier.try_wait.parity.shared.b64 p, [%1], %2;\n"
#else
        "mbarrier.test_wait.parity.shared.b64 p, [%1], %2;\n"
#endif
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
  }
}

}  // namespace kv

#endif
