// The CUDA twin of causal_attention: the sequence's K and V rows are rows of this pass, and every
// token is a query, so this is kernels/attention/many_queries.cuh with the simplest of caches.

#include "causal_attention.h"

#include "kernels/attention/head_dims.cuh"
#include "kernels/attention/many_queries.cuh"

namespace lesson01 {

using kv::attention::bf16;

namespace {

/// K and V as the model computed them: [num_rows, num_kv_heads, head_dim].
struct PassRows {
  const bf16* k;
  const bf16* v;
  const int32_t* first_row;
  int num_kv_heads;
  int head_dim;

  __device__ kv::attention::EvenRows rows(int seq, int kv_head) const {
    const int64_t stride = static_cast<int64_t>(num_kv_heads) * head_dim;
    const int64_t begin = first_row[seq] * stride + static_cast<int64_t>(kv_head) * head_dim;
    return {k + begin, v + begin, stride};
  }
};

}  // namespace

void fast_causal_attention_cuda(const CausalAttentionArgs& args, const kv::Stream& stream) {
  if (args.num_rows == 0) return;
  const kv::attention::AttentionPass pass{.q = static_cast<const bf16*>(args.q),
                                          .out = static_cast<bf16*>(args.out),
                                          .first_row = args.first_row,
                                          .seq_len = nullptr,
                                          .num_heads = args.num_heads,
                                          .num_kv_heads = args.num_kv_heads,
                                          .head_dim = args.head_dim};
  const PassRows rows{.k = static_cast<const bf16*>(args.k),
                      .v = static_cast<const bf16*>(args.v),
                      .first_row = args.first_row,
                      .num_kv_heads = args.num_kv_heads,
                      .head_dim = args.head_dim};
  kv::attention::with_head_dim(args.head_dim, [&](auto head_dim) {
    kv::attention::launch_many_queries<head_dim.value>(pass, rows, args.num_seqs, args.max_seq_len,
                                                       stream);
  });
}

}  // namespace lesson01
