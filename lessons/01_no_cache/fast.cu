// Hands this lesson's rows to kernels/attention. K and V are rows of the current pass, a sequence's
// rows are contiguous, and every token is a query.

#include "causal_attention.h"
#include "kernels/attention/launch.cuh"

namespace lesson01 {

void fast_causal_attention_cuda(const CausalAttentionArgs& args, const kv::Stream& stream) {
  const kv::attention::Contiguous<int32_t> rows_of_pass{.k = args.k,
                                                        .v = args.v,
                                                        .begin = args.first_row,
                                                        .num_rows = args.num_rows,
                                                        .num_kv_heads = args.num_kv_heads,
                                                        .head_dim = args.head_dim};
  kv::attention::launch_many_queries(kv::attention::queries_of(args), rows_of_pass, stream);
}

}  // namespace lesson01
