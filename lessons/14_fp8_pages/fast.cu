// Hands this lesson's pages to kernels/attention.

#include "fp8_attention.h"
#include "kernels/attention/fp8/launch_fp8.cuh"

namespace lesson14 {

void fast_fp8_attention_cuda(const Fp8AttentionArgs& args, const kv::Stream& stream) {
  const Fp8Blocks cache = args.pages();
  lesson04::check_block_size(cache.block_size);
  kv::attention::launch_fp8_attention(kv::attention::queries_of(args),
                                      {.k = cache.k,
                                       .v = cache.v,
                                       .scales = cache.scales,
                                       .block_tables = args.block_tables,
                                       .max_blocks_per_seq = args.max_blocks_per_seq,
                                       .num_blocks = cache.num_blocks,
                                       .block_size = cache.block_size,
                                       .scale_stride = cache.scale_stride()},
                                      args.workspace, stream);
}

}  // namespace lesson14
