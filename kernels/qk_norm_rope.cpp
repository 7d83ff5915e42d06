#include "kernels/qk_norm_rope.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/parallel.h"
#include "kernels/cpu_rows.h"

namespace kv {
namespace {

/// Rotates the pairs (x[i], x[i + half]) by the angles whose cosines and sines are given.
void rotate(float* x, const float* cosines, const float* sines, int half) {
  for (int i = 0; i < half; ++i) {
    const float a = x[i];
    const float b = x[i + half];
    x[i] = a * cosines[i] - b * sines[i];
    x[i + half] = b * cosines[i] + a * sines[i];
  }
}

struct HeadGroup {
  const float* in;           // [num_heads, head_dim]
  float* out;                // [num_heads, head_dim]
  const float* norm_weight;  // [head_dim], or null
  int num_heads;
};

}  // namespace

void qk_norm_rope_cpu(const QkNormRopeArgs& args) {
  const int dim = args.head_dim;
  const int half = dim / 2;
  const int64_t q_width = int64_t{args.num_heads} * dim;
  const int64_t kv_width = int64_t{args.num_kv_heads} * dim;

  parallel_for(args.num_rows, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> angles(static_cast<size_t>(dim));  // cosines, then sines
    float* cosines = angles.data();
    float* sines = cosines + half;
    for (int64_t row = begin; row < end; ++row) {
      const auto position = static_cast<float>(args.positions[row]);
      for (int i = 0; i < half; ++i) {
        // In double, and rounded: the float functions of two C libraries differ in their last bit.
        const double angle = position * args.inv_freq[i];
        cosines[i] = static_cast<float>(std::cos(angle));
        sines[i] = static_cast<float>(std::sin(angle));
      }
      const float* in = args.qkv + row * (q_width + 2 * kv_width);
      const int64_t slot = args.kv.slot_of(row);
      const HeadGroup groups[] = {
          {in, static_cast<float*>(args.q) + row * q_width, args.q_norm_weight, args.num_heads},
          {in + q_width, static_cast<float*>(args.kv.k) + slot * kv_width, args.k_norm_weight,
           slot < 0 ? 0 : args.num_kv_heads}};
      for (const HeadGroup& group : groups) {
        for (int head = 0; head < group.num_heads; ++head) {
          const float* x = group.in + int64_t{head} * dim;
          float* out = group.out + int64_t{head} * dim;
          if (group.norm_weight != nullptr) {
            rmsnorm_row(x, group.norm_weight, dim, args.norm_eps, out);
          } else {
            std::copy_n(x, dim, out);
          }
          rotate(out, cosines, sines, half);
        }
      }
      if (slot < 0) continue;
      std::copy_n(in + q_width + kv_width, kv_width,
                  static_cast<float*>(args.kv.v) + slot * kv_width);
    }
  });
}

}  // namespace kv
