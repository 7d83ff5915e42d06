#include "paged_cache_attention.h"

#include <bit>

#include "common/base/error.h"
#include "fast.h"
#include "kernels/attention/plan.h"

namespace lesson04 {

PagedCacheAttention::PagedCacheAttention(const kv::ModelConfig& config, PagedKvCache& cache)
    : PagedAttentionBase(config, cache) {
  const int size = cache.block_size();
  if (size > kMaxBlockSize || !std::has_single_bit(static_cast<unsigned>(size))) {
    kv::user_error("block size {}: the attention kernels want a power of two from 1 to {}", size,
                   kMaxBlockSize);
  }
}

void PagedCacheAttention::begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) {
  PagedAttentionBase::begin_pass(rows, arrays);
  args_ = {.cache = cache_->layer(0),  // its sizes; forward() sets the layer
           .max_blocks_per_seq = max_blocks_per_seq_,
           .num_seqs = rows.num_seqs(),
           .num_rows = rows.num_rows(),
           .max_rows_per_seq = rows.max_rows_per_seq(),
           .max_seq_len = rows.max_seq_len(),
           .num_heads = config_.num_heads};
  args_.workspace = arrays.zeroed_workspace(workspace_, paged_attention_workspace_bytes(args_));
  if (args_.max_rows_per_seq == 1) arrays.allow_replay();
}

PagedAttentionArgs PagedCacheAttention::args_of(const kv::AttentionRows& rows) const {
  PagedAttentionArgs args = args_;
  args.q = rows.q;
  args.out = rows.out;
  args.cache = cache_->layer(rows.layer);
  args.first_row = rows.first_row;
  args.seq_len = rows.seq_len;
  args.window = rows.window;
  args.block_tables = block_tables_;
  return args;
}

bool PagedCacheAttention::makes_heads() const {
  return kv::attention::serves_new_heads(kv::attention::queries_of(args_));
}

void PagedCacheAttention::keep(const kv::AttentionRows& rows, const kv::Stream& stream) const {
#if KV_HAVE_CUDA
  if (rows.heads != nullptr) return write_new_heads_cuda(*rows.heads, args_of(rows), stream);
#endif
  write(rows, stream);
}

void PagedCacheAttention::forward(const kv::AttentionRows& rows, const kv::Stream& stream) {
  keep(rows, stream);
  const bool plain = rows.kernel == kv::Kernel::kPlain;
  (plain ? paged_attention : fast_paged_attention)(args_of(rows), stream);
}

}  // namespace lesson04
