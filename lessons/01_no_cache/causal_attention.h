#pragma once

// Attention over the whole sequence, with no cache: K and V are rows of this very pass.

#include <cstdint>

#include "common/device.h"
#include "kernels/attention/contract.h"

namespace lesson01 {

struct CausalAttentionArgs {
  const void* q = nullptr;  // [num_rows, num_heads, head_dim], activation dtype
  const void* k = nullptr;  // [num_rows, num_kv_heads, head_dim]
  const void* v = nullptr;  // [num_rows, num_kv_heads, head_dim]
  void* out = nullptr;      // [num_rows, num_heads, head_dim]
  /// The sequences lie one after the other: sequence i has rows first_row[i] .. first_row[i + 1] -
  /// 1, and its row first_row[i] is its token 0. On the stream's device.
  const int32_t* first_row = nullptr;  // [num_seqs + 1]
  int num_seqs = 0;
  int num_rows = 0;
  int max_seq_len = 0;  // longest sequence of the pass (sizes the grid)
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int window = 0;  // keys that a query sees at most, its own included; 0 means no limit
};

/// The online softmax of one query over the keys so far.
struct OnlineSoftmax {
  float m;                                // largest score so far
  float l;                                // sum of exp(score - m)
  float acc[kv::attention::kMaxHeadDim];  // sum of exp(score - m) * v, [head_dim]
};

/// Returns the score of a key: the dot product of q and k, elements in ascending order, times
/// scale. The plain CPU kernel is made of this and add_key().
float score_of(const float* q, const float* k, int head_dim, float scale);
/// Adds one more key. The sums made with an older, smaller m are scaled to the new one, once.
void add_key(OnlineSoftmax& sum, float score, const float* v, int head_dim);

/// The plain kernel. A query takes its keys one by one, in ascending order; its bits depend on
/// nothing else.
void causal_attention_cpu(const CausalAttentionArgs& args);
void causal_attention_cuda(const CausalAttentionArgs& args, const kv::Stream& stream);
inline void causal_attention(const CausalAttentionArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(causal_attention, args, stream);
}

/// The fast kernel, which the engines run. Its bits differ from the plain kernel's, but they too
/// depend on nothing but the query and its keys.
void fast_causal_attention_cpu(const CausalAttentionArgs& args);
void fast_causal_attention_cuda(const CausalAttentionArgs& args, const kv::Stream& stream);
inline void fast_causal_attention(const CausalAttentionArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(fast_causal_attention, args, stream);
}

}  // namespace lesson01
