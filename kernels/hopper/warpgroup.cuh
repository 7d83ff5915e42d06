#pragma once

// wgmma: the tensor core step of a warpgroup, four warps side by side (Hopper, sm_90a). One operand
// comes from registers, the other from shared memory. The step runs asynchronously
// until a warp waits for it. It has the bits of mma_step (kernels/tensor_core.cuh), because a sum
// over the same 16 columns has the same bits in both.

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/launch.cuh"
#include "kernels/tensor_core.cuh"

// True in code compiled for exactly this GPU; PTX for later ones has no wgmma.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define KV_WARPGROUPS 1
#else
#define KV_WARPGROUPS 0
#endif

namespace kv::hopper {

/// True if code for exactly sm_90a runs here.
inline bool is_here() {
  static const bool is = cuda_backend::compute_major() == 9 &&
                         cuda_backend::device_limit(cudaDevAttrComputeCapabilityMinor) == 0;
  return is;
}

inline constexpr int kWarpgroupThreads = 128;

/// Rows as TMA and wgmma swizzle them are 128 bytes long. Eight rows begin at a multiple of 1,024
/// bytes; piece i (16 bytes) of row r is in place i ^ r.
inline constexpr int kSwizzledRowBytes = 128;
inline constexpr int kSwizzleBytes = 8 * kSwizzledRowBytes;

#if KV_WARPGROUPS

/// A matrix in shared memory for wgmma. A piece is 8 rows x 16 bytes, 128 contiguous bytes. The
/// next 8 columns are `column_bytes` further on, the next 8 rows `row_bytes`.
__device__ inline uint64_t matrix_descriptor(const void* first, uint32_t column_bytes,
                                             uint32_t row_bytes) {
  const uint64_t address = (shared_address(first) & 0x3FFFF) >> 4;
  return address | uint64_t{column_bytes >> 4} << 16 | uint64_t{row_bytes >> 4} << 32;
}

/// A matrix of contiguous swizzled rows. A step takes 32 bytes of each row; add 32 bytes to the
/// address for the next step, whatever the swizzle does. By column, a step takes 16 whole rows;
/// their next 64 columns are `region_bytes` further on.
__device__ inline uint64_t swizzled_descriptor(const void* first, uint32_t region_bytes = 16) {
  return matrix_descriptor(first, region_bytes, kSwizzleBytes) | uint64_t{1} << 62;
}

/// Lets the steps that follow use registers written before.
__device__ inline void begin_steps() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Closes a group of steps.
__device__ inline void end_steps() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most kPending groups are in flight.
template <int kPending>
__device__ inline void wait_for_steps() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
/// Keeps the compiler from moving reads of a finished step's results before this line.
template <int kCount>
__device__ inline void pin(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

/// Number of registers per thread: copying warps give registers to multiplying ones.
template <int kRegisters>
__device__ inline void give_registers_back() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/// Lets two warpgroups issue their steps in turn: while the steps of one run, the other does its
/// work between steps. `warpgroup` is 0 or 1, the one that gets the turn. Uses the CTA's barriers 1
/// and 2.
__device__ inline void take_turn(int warpgroup) {
  asm volatile("bar.sync %0, 256;" ::"r"(1 + warpgroup) : "memory");
}
__device__ inline void give_turn(int warpgroup) {
  asm volatile("bar.arrive %0, 256;" ::"r"(1 + warpgroup) : "memory");
}

/// Makes this thread's writes to shared memory visible to the steps.
__device__ inline void publish_copies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
/// A barrier of all threads of a cluster. Writes before it are visible to all of them after it.
__device__ inline void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
/// Writes to the shared memory of CTA `rank` of the cluster, at the address that `to` has in this
/// CTA.
__device__ inline void store_to_cta(float4* to, int rank, const float4& x) {
  asm volatile(
      "{\n.reg .u32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "st.shared::cluster.v4.f32 [there], {%2, %3, %4, %5};\n}" ::"r"(shared_address(to)),
      "r"(rank), "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w)
      : "memory");
}

/// A position in a ring of slots, and the phase of its barriers.
template <int kSlots>
struct Ring {
  int slot = 0, phase = 0;
  __device__ void next(int steps = 1) {
    slot += steps;
    if (slot < kSlots) return;
    slot -= kSlots;
    phase ^= 1;
  }
};

/// Makes new barriers visible to bulk copies, too.
__device__ inline void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
/// Starts copying the map's box at these coordinates to shared memory.
__device__ inline void copy_box(void* shared, const CUtensorMap& map, int x, int y,
                                uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4}], [%2];" ::"r"(shared_address(shared)),
      "l"(&map), "r"(shared_address(barrier)), "r"(x), "r"(y)
      : "memory");
}
__device__ inline void copy_box(void* shared, const CUtensorMap& map, int x, int y, int z,
                                uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(shared_address(shared)),
      "l"(&map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z)
      : "memory");
}
/// Arrives at a barrier in shared memory.
__device__ inline void arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// The registers of d, as operands and as the text of the instruction names them.
#define KV_FOUR(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define KV_SIXTEEN(d, i) KV_FOUR(d, i), KV_FOUR(d, i + 4), KV_FOUR(d, i + 8), KV_FOUR(d, i + 12)
#define KV_8(d) KV_FOUR(d, 0), KV_FOUR(d, 4)
#define KV_16(d) KV_SIXTEEN(d, 0)
#define KV_32(d) KV_16(d), KV_SIXTEEN(d, 16)
#define KV_48(d) KV_32(d), KV_SIXTEEN(d, 32)
#define KV_64(d) KV_48(d), KV_SIXTEEN(d, 48)
#define KV_96(d) KV_64(d), KV_SIXTEEN(d, 64), KV_SIXTEEN(d, 80)
#define KV_TEXT_8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define KV_TEXT_16 KV_TEXT_8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define KV_TEXT_32 KV_TEXT_16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define KV_TEXT_48 KV_TEXT_32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define KV_TEXT_64 KV_TEXT_48 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define KV_TEXT_96                                                   \
  KV_TEXT_64                                                         \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79" \
  ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"

/// The text of a step whose d has `count` registers of a thread and `columns` columns. The others
/// are the texts of its other operands, which are numbered after those of d.
#define KV_STEP_TEXT(count, columns, a, b, adds, layouts)                            \
  "{\n.reg .pred p;\n"                                                               \
  "setp.ne.b32 p, " adds                                                             \
  ", 0;\n"                                                                           \
  "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32.bf16.bf16 {" KV_TEXT_##count \
      "}, " a ", " b ", p, 1, 1, " layouts ";\n}"

/// d = a b + d, or a b if !adds: 64 rows x 16 columns of a, 16 columns x 8 n rows of b, n =
/// count / 4. With g and t as in mma_step, warp w of the four has rows 16 w ..:
///   a0 = A(g, 2t)  a1 = A(g + 8, 2t)  a2 = A(g, 2t + 8)  a3 = A(g + 8, 2t + 8)
///   d[4 j], d[4 j + 1] = D(g, 8 j + 2 t), D(g, 8 j + 2 t + 1)    d[4 j + 2], .. = D(g + 8, ..)
/// kByColumn: the 16 bytes of a piece of b are 8 rows of a column instead of 8 columns of a row.
#define KV_WARPGROUP_STEP(count, columns, a_at, b_at, adds_at, by_column_at)                     \
  template <bool kByColumn = false>                                                              \
  __device__ inline void warpgroup_step(float(&d)[count], uint32_t a0, uint32_t a1, uint32_t a2, \
                                        uint32_t a3, uint64_t b, bool adds) {                    \
    asm volatile(KV_STEP_TEXT(count, columns, a_at, b_at, adds_at, by_column_at)                 \
                 : KV_##count(d)                                                                 \
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(static_cast<int>(adds)),      \
                   "n"(static_cast<int>(kByColumn)));                                            \
  }
KV_WARPGROUP_STEP(8, 16, "{%8,%9,%10,%11}", "%12", "%13", "%14")
KV_WARPGROUP_STEP(16, 32, "{%16,%17,%18,%19}", "%20", "%21", "%22")
KV_WARPGROUP_STEP(32, 64, "{%32,%33,%34,%35}", "%36", "%37", "%38")
KV_WARPGROUP_STEP(48, 96, "{%48,%49,%50,%51}", "%52", "%53", "%54")
KV_WARPGROUP_STEP(64, 128, "{%64,%65,%66,%67}", "%68", "%69", "%70")
KV_WARPGROUP_STEP(96, 192, "{%96,%97,%98,%99}", "%100", "%101", "%102")

#undef KV_WARPGROUP_STEP
#undef KV_STEP_TEXT
#undef KV_TEXT_96
#undef KV_TEXT_64
#undef KV_TEXT_48
#undef KV_TEXT_32
#undef KV_TEXT_16
#undef KV_TEXT_8
#undef KV_96
#undef KV_64
#undef KV_48
#undef KV_32
#undef KV_16
#undef KV_8
#undef KV_SIXTEEN
#undef KV_FOUR

#endif

}  // namespace kv::hopper
