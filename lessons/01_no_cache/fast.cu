// Where this lesson's rows are, handed to kernels/attention: K and V are rows of this very pass,
// and a sequence's rows lie one after the other. Every token is a query.

#include "fast.h"
#include "kernels/attention/launch.cuh"

namespace lesson01 {
namespace {

using kv::attention::bf16;

/// K and V as the model computed them: [num_rows, num_kv_heads, head_dim].
struct RowsOfPass {
  const bf16* k;
  const bf16* v;
  const int32_t* first_row;
  int num_kv_heads;
  int head_dim;

  __device__ kv::attention::EvenRows rows(int seq, int kv_head) const {
    const int64_t stride = static_cast<int64_t>(num_kv_heads) * head_dim;
    const int64_t begin = first_row[seq] * stride + static_cast<int64_t>(kv_head) * head_dim;
    return {.k = k + begin, .v = v + begin, .stride = stride, .row_of = {}};
  }
};

}  // namespace

void fast_causal_attention_cuda(const CausalAttentionArgs& args, const kv::Stream& stream) {
  const RowsOfPass address{.k = static_cast<const bf16*>(args.k),
                           .v = static_cast<const bf16*>(args.v),
                           .first_row = args.first_row,
                           .num_kv_heads = args.num_kv_heads,
                           .head_dim = args.head_dim};
  kv::attention::launch_many_queries(queries_of(args), address, stream);
}

}  // namespace lesson01
