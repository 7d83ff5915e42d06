// Where this lesson's rows are, handed to kernels/attention: a sequence's tokens lie one after the
// other in its slab.

#include "fast.h"
#include "kernels/attention/launch.cuh"

namespace lesson02 {
namespace {

using kv::attention::bf16;

/// One layer of the flat cache: [token slots, num_kv_heads, head_dim].
struct RowsOfSlabs {
  const bf16* k;
  const bf16* v;
  const int64_t* slab_begin;  // [num_seqs]
  int num_kv_heads;
  int head_dim;

  __device__ kv::attention::EvenRows rows(int seq, int kv_head) const {
    const int64_t stride = static_cast<int64_t>(num_kv_heads) * head_dim;
    const int64_t begin = slab_begin[seq] * stride + static_cast<int64_t>(kv_head) * head_dim;
    return {.k = k + begin, .v = v + begin, .stride = stride, .row_of = {}};
  }
};

}  // namespace

void fast_decode_attention_cuda(const DecodeAttentionArgs& args, const kv::Stream& stream) {
  const RowsOfSlabs address{.k = static_cast<const bf16*>(args.k_cache),
                            .v = static_cast<const bf16*>(args.v_cache),
                            .slab_begin = args.slab_begin,
                            .num_kv_heads = args.num_kv_heads,
                            .head_dim = args.head_dim};
  kv::attention::launch_attention(queries_of(args), address, args.workspace, stream);
}

}  // namespace lesson02
