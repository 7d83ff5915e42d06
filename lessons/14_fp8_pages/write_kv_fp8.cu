// The plain CUDA twin of write_kv_fp8: a warp finds the largest magnitude of a head, then writes
// the head.

#include "write_kv_fp8.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <cassert>

#include "e4m3.h"
#include "kernels/launch.cuh"
#include "kernels/warp.cuh"

namespace lesson14 {
namespace {

constexpr int kHeadsPerCta = 8;

/// Grid: (num_rows, kHeadsPerCta of num_kv_heads, 2): z = 0 writes K, z = 1 writes V. A CTA has
/// warps of 32 threads along x, one for each of its heads along y.
__global__ void write_kv_fp8_kernel(WriteKvFp8Args args) {
  kv::let_successors_start();
  kv::wait_for_predecessors();  // until then k, v and the slots may be incomplete
  const Fp8Blocks& cache = args.cache;
  const int64_t row = blockIdx.x;
  const auto head = static_cast<int>(blockIdx.y * kHeadsPerCta + threadIdx.y);
  const bool is_k = blockIdx.z == 0;
  const int64_t slot = args.slot_mapping[row];
  assert(slot == lesson03::kNoSlot || cache.has_slot(slot));
  if (!cache.has_slot(slot) || head >= cache.num_kv_heads) return;
  const auto* const x = static_cast<const __nv_bfloat16*>(is_k ? args.k : args.v) +
                        (row * cache.num_kv_heads + head) * cache.head_dim;
  float largest = 0.0f;
  for (int d = static_cast<int>(threadIdx.x); d < cache.head_dim; d += 32) {
    largest = fmaxf(largest, fabsf(__bfloat162float(x[d])));
  }
  const int exponent = scale_exponent(kv::warp_max(largest));
  const Fp8Head out = fp8_head(cache, is_k, slot / cache.block_size,
                               static_cast<int>(slot % cache.block_size), head);
  if (threadIdx.x == 0) *out.scale = byte_of(exponent);
  for (int d = static_cast<int>(threadIdx.x); d < cache.head_dim; d += 32) {
    out.codes[d] = encode(__bfloat162float(x[d]), exponent);
  }
}

}  // namespace

void write_kv_fp8_cuda(const WriteKvFp8Args& args, const kv::Stream& stream) {
  if (args.num_rows == 0) return;
  const auto heads = static_cast<unsigned>(args.cache.num_kv_heads);
  const dim3 grid(static_cast<unsigned>(args.num_rows), (heads + kHeadsPerCta - 1) / kHeadsPerCta,
                  2);
  kv::launch_dependent(
      write_kv_fp8_kernel,
      {grid, dim3(32, std::min<unsigned>(heads, kHeadsPerCta)), 0, "launching write_kv_fp8"},
      stream, args);
}

}  // namespace lesson14
