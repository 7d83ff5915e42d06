#pragma once

// The device side of QK-norm and RoPE. A warp keeps a head of a row in registers, so that each
// element is read once. With many rows it goes on with the row's next heads: they have the same
// angles, and a sine takes longer than all the rest. The bits do not depend on the number of heads
// in a warp.

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/launch.cuh"
#include "kernels/qk_norm_rope.h"
#include "kernels/warp.cuh"

namespace kv {

/// Calls launch<kHeads>() with the number of heads for a warp. It is one where time is latency,
/// which leaves registers to the next kernels, and more where time is arithmetic.
template <class Launch>
void with_heads_of_warp(int64_t num_rows, const Launch& launch) {
  if (num_rows < 256) return launch.template operator()<1>();
  launch.template operator()<8>();
}
/// CTAs of 128 threads for which an SM shall have room.
template <int kHeads>
inline constexpr int kHeadCtasPerSm = kHeads == 1 ? 16 : 10;

/// The heads of one row, one after the other. Numbers count the row's Q heads first, then K, then
/// V. Lane l holds the pairs (i, i + head_dim / 2) with i = l, l + 32, ...: RoPE turns a pair
/// within its lane. kPairs: pairs of a lane, at least head_dim / 64.
template <int kPairs>
class HeadInWarp {
 public:
  /// Reads data that does not depend on the product before: the row's angles, if RoPE turns a head,
  /// ...
  __device__ HeadInWarp(const QkNormRopeArgs& args, int64_t row, bool turns)
      : half_(args.head_dim / 2) {
    const auto position = static_cast<float>(args.positions[row]);
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      cosine_[j] = 1.0f;
      sine_[j] = 0.0f;
      if (!turns || element(j) >= half_) continue;
      sincosf(position * args.inv_freq[element(j)], &sine_[j], &cosine_[j]);
    }
  }

  /// ... and the weights of this head.
  __device__ void take(const QkNormRopeArgs& args, int head) {
    const bool is_q = head < args.num_heads;
    is_v_ = head >= args.num_heads + args.num_kv_heads;
    const float* weight = is_v_ ? nullptr : is_q ? args.q_norm_weight : args.k_norm_weight;
    has_norm_ = weight != nullptr;
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      const int i = element(j);
      weight_a_[j] = weight_b_[j] = 1.0f;
      if (!has_norm_ || i >= half_) continue;
      weight_a_[j] = weight[i];
      weight_b_[j] = weight[i + half_];
    }
  }

  /// A lane's elements of a head.
  struct Elements {
    float a[kPairs], b[kPairs];
  };
  /// Reads a head from the product's output.
  __device__ Elements read(const float* in) const {
    Elements x;
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      const int i = element(j);
      x.a[j] = i < half_ ? in[i] : 0.0f;
      x.b[j] = i < half_ ? in[i + half_] : 0.0f;
    }
    return x;
  }

  /// Normalises the head and turns it.
  __device__ void compute(Elements& x, float norm_eps) const {
    if (has_norm_) norm(x, norm_eps);
    if (is_v_) return;
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      const float a = x.a[j], b = x.b[j];
      x.a[j] = fmaf(-b, sine_[j], a * cosine_[j]);
      x.b[j] = fmaf(a, sine_[j], b * cosine_[j]);
    }
  }

  __device__ void store(const Elements& x, __nv_bfloat16* out) const {
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      const int i = element(j);
      if (i >= half_) continue;
      out[i] = __float2bfloat16_rn(x.a[j]);
      out[i + half_] = __float2bfloat16_rn(x.b[j]);
    }
  }

 private:
  /// The first element of this lane's pair j.
  __device__ static int element(int j) { return static_cast<int>(threadIdx.x) % 32 + 32 * j; }

  __device__ void norm(Elements& x, float eps) const {
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < kPairs; ++j) sum = fmaf(x.b[j], x.b[j], fmaf(x.a[j], x.a[j], sum));
    const float scale = rsqrtf(warp_sum(sum) / static_cast<float>(2 * half_) + eps);
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      x.a[j] = x.a[j] * scale * weight_a_[j];
      x.b[j] = x.b[j] * scale * weight_b_[j];
    }
  }

  int half_;
  bool is_v_ = false;
  bool has_norm_ = false;
  float cosine_[kPairs], sine_[kPairs], weight_a_[kPairs], weight_b_[kPairs];
};

/// Makes up to kHeads heads of a row with one warp, from `first_head` to the row's last one at
/// most. Head h goes to place_of(h), or nowhere if that is null. The next head is loaded while one
/// is computed.
template <int kPairs, int kHeads, class PlaceOf>
__device__ inline void make_heads(const QkNormRopeArgs& args, int64_t row, int first_head,
                                  const PlaceOf& place_of) {
  const int turned = args.num_heads + args.num_kv_heads, heads_per_row = turned + args.num_kv_heads;
  const float* const in = args.qkv + row * heads_per_row * args.head_dim;
  HeadInWarp<kPairs> mine(args, row, first_head < turned);
  mine.take(args, first_head);
  if constexpr (kHeads == 1) {
    wait_for_predecessors();
    __nv_bfloat16* const out = place_of(first_head);
    auto x = mine.read(in + first_head * args.head_dim);
    mine.compute(x, args.norm_eps);
    if (out != nullptr) mine.store(x, out);
  } else {
    wait_for_predecessors();
    auto next = mine.read(in + first_head * args.head_dim);
    const int end_head = min(first_head + kHeads, heads_per_row);
    for (int head = first_head; head < end_head; ++head) {
      auto x = next;
      if (head + 1 < end_head) next = mine.read(in + (head + 1) * args.head_dim);
      if (head == args.num_heads || head == turned) mine.take(args, head);  // another kind
      mine.compute(x, args.norm_eps);
      if (__nv_bfloat16* const out = place_of(head)) mine.store(x, out);
    }
  }
}

}  // namespace kv
