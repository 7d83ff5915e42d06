#pragma once

// out[row] = x[row] * rsqrt(mean(x[row]^2) + eps) * weight.

#include "common/device.h"

namespace kv {

struct RmsNormArgs {
  const float* x = nullptr;       // [num_rows, k]
  const float* weight = nullptr;  // [k]
  int num_rows = 0;
  int k = 0;
  float eps = 0.0f;
  void* out = nullptr;  // [num_rows, k], activation dtype
};

void rmsnorm_cpu(const RmsNormArgs& args);
void rmsnorm_cuda(const RmsNormArgs& args, const Stream& stream);
inline void rmsnorm(const RmsNormArgs& args, const Stream& stream) {
  KV_DISPATCH(rmsnorm, args, stream);
}

}  // namespace kv
