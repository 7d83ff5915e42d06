// The CUDA twin of paged_attention: three kernels for three shapes of a pass, all over the same
// cache and by the same contract (kernels/attention), so the bits are the same for all of them.

#include "paged_attention.h"

#include <stdexcept>
#include <string>

#include "kernels/attention/head_dims.cuh"
#include "kernels/attention/many_queries.cuh"
#include "kernels/attention/spread_queries.cuh"
#include "paged_plan.h"
#include "stream_attention.cuh"

namespace lesson04 {
namespace {

template <bool kSeparate>
PagedCache<kSeparate> cache_of(const PagedAttentionArgs& args) {
  int shift = 0;
  while ((1 << shift) < args.cache.block_size) ++shift;
  return {.blocks = args.cache,
          .block_tables = args.block_tables,
          .max_blocks_per_seq = args.max_blocks_per_seq,
          .shift = shift};
}

template <int kHeadDim, bool kSeparate>
void launch_spread(const PagedAttentionArgs& args, const AttentionPass& pass, const PagedPlan& plan,
                   const kv::Stream& stream) {
  auto* counters = static_cast<unsigned int*>(args.workspace);
  const kv::attention::SpreadWorkspace workspace{.counters = counters,
                                                 .partials = counters + kv::attention::kMaxCounters,
                                                 .max_groups = plan.max_groups};
  const kv::Launch launch{
      dim3(static_cast<unsigned>(plan.max_groups), static_cast<unsigned>(args.cache.num_kv_heads),
           static_cast<unsigned>(args.num_seqs * plan.blocks_per_seq)),
      dim3(kv::attention::spread_threads(kv::attention::kGroupTiles)), 0,
      "launching paged attention"};
  kv::launch_dependent(kv::attention::spread_queries_kernel<kHeadDim, kv::attention::kGroupTiles,
                                                            PagedCache<kSeparate>>,
                       launch, stream, pass, cache_of<kSeparate>(args), workspace,
                       plan.blocks_per_seq);
}

template <int kHeadDim, bool kSeparate>
void launch(const PagedAttentionArgs& args, const AttentionPass& pass, const PagedPlan& plan,
            const kv::Stream& stream) {
  const auto cache = cache_of<kSeparate>(args);
  switch (plan.kernel) {
    case PagedPlan::Kernel::kMany:
      return kv::attention::launch_many_queries<kHeadDim>(pass, cache, args.num_seqs,
                                                          args.max_rows_per_seq, stream);
    case PagedPlan::Kernel::kStream:
      return launch_stream_queries<kHeadDim>(pass, cache, plan, args.num_seqs, args.workspace,
                                             stream);
    case PagedPlan::Kernel::kSpread:
      return launch_spread<kHeadDim, kSeparate>(args, pass, plan, stream);
  }
}

}  // namespace

void fast_paged_attention_cuda(const PagedAttentionArgs& args, const kv::Stream& stream) {
  check_block_size(args.cache.block_size);
  if (args.num_rows == 0) return;
  const AttentionPass pass{.q = static_cast<const bf16*>(args.q),
                           .out = static_cast<bf16*>(args.out),
                           .first_row = args.first_row,
                           .seq_len = args.seq_len,
                           .num_heads = args.num_heads,
                           .num_kv_heads = args.cache.num_kv_heads,
                           .head_dim = args.cache.head_dim};
  if (int64_t{args.cache.num_blocks} * args.cache.block_size > INT32_MAX) {
    throw std::invalid_argument(
        "paged attention on CUDA: " + std::to_string(args.cache.num_blocks) + " blocks of " +
        std::to_string(args.cache.block_size) + " tokens, wanted fewer than 2^31 slots");
  }
  const PagedPlan plan(args);
  const size_t needed = plan.workspace_bytes(args.cache.head_dim);
  if (args.workspace == nullptr && needed > 0) {
    throw std::logic_error("paged attention on CUDA: " + std::to_string(needed) +
                           " bytes of workspace are needed, none is given");
  }
  kv::attention::with_head_dim(args.cache.head_dim, [&](auto head_dim) {
    if (args.cache.separate()) {
      launch<head_dim.value, true>(args, pass, plan, stream);
    } else {
      launch<head_dim.value, false>(args, pass, plan, stream);
    }
  });
}

}  // namespace lesson04
