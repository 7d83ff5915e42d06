// Where this lesson's rows are, handed to kernels/attention: a sequence's tokens lie one after the
// other in its slab.

#include "fast.h"

#include "kernels/attention/attend.h"
#include "kernels/attention/plan.h"

namespace lesson02 {

void fast_decode_attention_cpu(const DecodeAttentionArgs& args) {
  const int64_t stride = int64_t{args.num_kv_heads} * args.head_dim;
  kv::attention::attend_pass(queries_of(args), [&](int seq, int kv_head) {
    const int64_t begin = args.slab_begin[seq] * stride + int64_t{kv_head} * args.head_dim;
    return kv::attention::KvRows{.k = static_cast<const float*>(args.k_cache) + begin,
                                 .v = static_cast<const float*>(args.v_cache) + begin,
                                 .token_stride = stride};
  });
}

size_t decode_attention_workspace_bytes(const DecodeAttentionArgs& args) {
  return kv::attention::Plan(queries_of(args)).workspace_bytes;
}

}  // namespace lesson02
