#pragma once

// The device side of QK-norm and RoPE: a warp takes one head of one row and keeps it in registers,
// so that an element is read once. Whoever calls this gets the same bits.

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/qk_norm_rope.h"
#include "kernels/warp.cuh"

namespace kv {

/// One head of one row; the row's Q heads are counted first, then K, then V. Lane l holds the pairs
/// (i, i + head_dim / 2) with i = l, l + 32, ...: RoPE turns a pair, and never leaves the lane.
/// kPairs: a lane's, at least head_dim / 64.
template <int kPairs>
class HeadInWarp {
 public:
  /// Reads what does not depend on the product before: angles and weights.
  __device__ HeadInWarp(const QkNormRopeArgs& args, int64_t row, int head)
      : half_(args.head_dim / 2), is_v_(head >= args.num_heads + args.num_kv_heads) {
    const bool is_q = head < args.num_heads;
    const float* weight = is_v_ ? nullptr : is_q ? args.q_norm_weight : args.k_norm_weight;
    has_norm_ = weight != nullptr;
    const auto position = static_cast<float>(args.positions[row]);
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      const int i = element(j);
      cosine_[j] = 1.0f;
      sine_[j] = 0.0f;
      weight_a_[j] = weight_b_[j] = 1.0f;
      if (i >= half_) continue;
      if (!is_v_) sincosf(position * args.inv_freq[i], &sine_[j], &cosine_[j]);
      if (has_norm_) {
        weight_a_[j] = weight[i];
        weight_b_[j] = weight[i + half_];
      }
    }
  }

  /// Reads the head from the product's output, norms and turns it.
  __device__ void compute(const float* in, float norm_eps) {
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      const int i = element(j);
      a_[j] = i < half_ ? in[i] : 0.0f;
      b_[j] = i < half_ ? in[i + half_] : 0.0f;
    }
    if (has_norm_) norm(norm_eps);
    if (is_v_) return;
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      const float a = a_[j], b = b_[j];
      a_[j] = fmaf(-b, sine_[j], a * cosine_[j]);
      b_[j] = fmaf(a, sine_[j], b * cosine_[j]);
    }
  }

  __device__ void store(__nv_bfloat16* out) const {
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      const int i = element(j);
      if (i >= half_) continue;
      out[i] = __float2bfloat16_rn(a_[j]);
      out[i + half_] = __float2bfloat16_rn(b_[j]);
    }
  }

 private:
  /// The first element of this lane's pair j.
  __device__ static int element(int j) { return static_cast<int>(threadIdx.x) % 32 + 32 * j; }

  __device__ void norm(float eps) {
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < kPairs; ++j) sum = fmaf(b_[j], b_[j], fmaf(a_[j], a_[j], sum));
    const float scale = rsqrtf(warp_sum(sum) / static_cast<float>(2 * half_) + eps);
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      a_[j] = a_[j] * scale * weight_a_[j];
      b_[j] = b_[j] * scale * weight_b_[j];
    }
  }

  int half_;
  bool is_v_;
  bool has_norm_;
  float cosine_[kPairs], sine_[kPairs], weight_a_[kPairs], weight_b_[kPairs];
  float a_[kPairs], b_[kPairs];
};

}  // namespace kv
