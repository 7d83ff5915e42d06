// For kernels/attention: a sequence's tokens lie one after the other, in its slab.

#include "decode_attention.h"
#include "kernels/attention/launch.cuh"

namespace lesson02 {

void fast_decode_attention_cuda(const DecodeAttentionArgs& args, const kv::Stream& stream) {
  const kv::attention::Contiguous<int64_t> slabs{.k = args.k_cache,
                                                 .v = args.v_cache,
                                                 .begin = args.slab_begin,
                                                 .num_kv_heads = args.num_kv_heads,
                                                 .head_dim = args.head_dim};
  kv::attention::launch_attention(kv::attention::queries_of(args), slabs, args.workspace, stream);
}

}  // namespace lesson02
