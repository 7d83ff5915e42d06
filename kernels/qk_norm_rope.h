#pragma once

// Splits a fused QKV row into Q, K and V; RMS-normalises each head of Q and K (Qwen3's QK-norm) and
// rotates it by its position (RoPE, the half-split form of Hugging Face: element i pairs with
// i + head_dim / 2). K and V go into slots, which may be those of a cache.

#include "common/device.h"
#include "kernels/kv_slots.h"

namespace kv {

struct QkNormRopeArgs {
  const float* qkv = nullptr;          // [num_rows, (num_heads + 2 num_kv_heads) head_dim]
  const int32_t* positions = nullptr;  // [num_rows], on the stream's device
  int num_rows = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  const float* q_norm_weight = nullptr;  // [head_dim]; null means no QK-norm
  const float* k_norm_weight = nullptr;  // [head_dim], or null
  float norm_eps = 0.0f;
  const float* inv_freq = nullptr;  // [head_dim / 2]: theta^(-2 i / head_dim)
  void* q = nullptr;                // [num_rows, num_heads, head_dim], activation dtype
  KvSlots kv = {};
};

void qk_norm_rope_cpu(const QkNormRopeArgs& args);
void qk_norm_rope_cuda(const QkNormRopeArgs& args, const Stream& stream);
inline void qk_norm_rope(const QkNormRopeArgs& args, const Stream& stream) {
  KV_DISPATCH(qk_norm_rope, args, stream);
}

}  // namespace kv
