#pragma once

// The sum and the maximum over the lanes of a warp.

namespace kv {

/// The sum of the lanes' x, with the same bits in every lane: in each of five rounds two lanes swap
/// their partial sums, and both add the same two numbers.
__device__ inline float warp_sum(float x) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, mask);
  return x;
}

/// The largest of the lanes' x, in every lane.
__device__ inline float warp_max(float x) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, mask));
  return x;
}

}  // namespace kv
