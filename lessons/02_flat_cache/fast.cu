// Hands this lesson's rows to kernels/attention: a sequence's tokens are contiguous in its slab.

#include <stdexcept>
#include <string>

#include "decode_attention.h"
#include "kernels/attention/launch.cuh"

namespace lesson02 {
namespace {

kv::attention::Contiguous<int64_t> slabs_of(const DecodeAttentionArgs& args) {
  if (args.num_slots > INT32_MAX) {
    throw std::invalid_argument("attention on CUDA: " + std::to_string(args.num_slots) +
                                " token slots, wanted fewer than 2^31");
  }
  return {.k = args.k_cache,
          .v = args.v_cache,
          .begin = args.slab_begin,
          .num_rows = args.num_slots,
          .num_kv_heads = args.num_kv_heads,
          .head_dim = args.head_dim};
}

}  // namespace

void fast_decode_attention_cuda(const DecodeAttentionArgs& args, const kv::Stream& stream) {
  kv::attention::launch_attention(kv::attention::queries_of(args), slabs_of(args), args.workspace,
                                  stream);
}

}  // namespace lesson02
