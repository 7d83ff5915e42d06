// Where this lesson's rows are, handed to kernels/attention: K and V are rows of this very pass,
// and a sequence's rows lie one after the other.

#include "fast.h"

#include "kernels/attention/attend.h"

namespace lesson01 {

void fast_causal_attention_cpu(const CausalAttentionArgs& args) {
  const int64_t stride = int64_t{args.num_kv_heads} * args.head_dim;
  kv::attention::attend_pass(queries_of(args), [&](int seq, int kv_head) {
    const int64_t begin = args.first_row[seq] * stride + int64_t{kv_head} * args.head_dim;
    return kv::attention::KvRows{.k = static_cast<const float*>(args.k) + begin,
                                 .v = static_cast<const float*>(args.v) + begin,
                                 .token_stride = stride};
  });
}

}  // namespace lesson01
