// Hands this lesson's pages to kernels/attention.

#include "fp8_attention.h"
#include "kernels/attention/launch.cuh"

namespace lesson14 {

void fast_fp8_attention_cuda(const Fp8AttentionArgs& args, const kv::Stream& stream) {
  lesson04::check_block_size(args.cache.block_size);
  const kv::attention::Fp8Blocks pages{.k = args.cache.k,
                                       .v = args.cache.v,
                                       .scales = args.scales,
                                       .block_tables = args.block_tables,
                                       .max_blocks_per_seq = args.max_blocks_per_seq,
                                       .num_blocks = args.cache.num_blocks,
                                       .block_size = args.cache.block_size,
                                       .scale_stride = args.pages().scale_stride(),
                                       .num_kv_heads = args.cache.num_kv_heads,
                                       .head_dim = args.cache.head_dim};
  kv::attention::launch_attention(kv::attention::queries_of(args), pages, args.workspace, stream);
}

}  // namespace lesson14
