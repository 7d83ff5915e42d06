// Hands this lesson's pages to kernels/attention.

#include "fp8_attention.h"
#include "kernels/attention/fp8/launch_fp8.cuh"

namespace lesson14 {

void fast_fp8_attention_cuda(const PagedAttentionArgs& args, const kv::Stream& stream) {
  const KvBlocks& cache = args.cache;
  lesson04::check_block_size(cache.block_size);
  kv::attention::launch_fp8_attention(kv::attention::queries_of(args),
                                      {.k = cache.k,
                                       .v = cache.v,
                                       .scales = cache.scales,
                                       .block_tables = args.block_tables,
                                       .max_blocks_per_seq = args.max_blocks_per_seq,
                                       .num_blocks = cache.num_blocks,
                                       .block_size = cache.block_size,
                                       .block_stride = cache.block_stride,
                                       .scale_stride = cache.scale_stride()},
                                      args.workspace, stream);
}

}  // namespace lesson14
