#include "paged_cache_attention.h"

#include <bit>

#include "common/error.h"

namespace lesson04 {

PagedPass::PagedPass(const kv::ModelConfig& config, std::span<const KvBlocks> layers)
    : num_heads_(config.num_heads), layers_(layers) {
  const int size = layers[0].block_size;
  if (size > kMaxBlockSize || !std::has_single_bit(static_cast<unsigned>(size))) {
    kv::user_error("--block-size {}: wanted a power of two from 1 to {}, such as 16", size,
                   kMaxBlockSize);
  }
}

void PagedPass::begin(const kv::PassRows& rows, const BlockTables& tables, kv::PassArrays& arrays) {
  const int width = lesson03::blocks_for(rows.max_seq_len(), layers_[0].block_size);
  args_ = {.cache = layers_[0],  // its sizes; args_of() sets the layer
           .max_blocks_per_seq = width,
           .num_seqs = rows.num_seqs(),
           .num_rows = rows.num_rows(),
           .max_rows_per_seq = rows.max_rows_per_seq(),
           .max_seq_len = rows.max_seq_len(),
           .num_heads = num_heads_};
  args_.workspace = arrays.workspace(paged_attention_workspace_bytes(args_));
  arrays.add(pack_block_tables(rows, tables, width), args_.block_tables);
  if (args_.max_rows_per_seq == 1) arrays.allow_replay();
}

PagedAttentionArgs PagedPass::args_of(const kv::AttentionRows& rows) const {
  PagedAttentionArgs args = args_;
  args.q = rows.q;
  args.out = rows.out;
  args.cache = layers_[rows.layer];
  args.first_row = rows.first_row;
  args.seq_len = rows.seq_len;
  args.window = rows.window;
  return args;
}

kv::KvSlots PagedPass::slots(int layer, const int64_t* slot_mapping) const {
  return {.k = layers_[layer].k, .v = layers_[layer].v, .slot_mapping = slot_mapping};
}

void PagedPass::attend(const kv::AttentionRows& rows, const kv::Stream& stream) const {
  const bool plain = rows.kernel == kv::Kernel::kPlain;
  (plain ? paged_attention : fast_paged_attention)(args_of(rows), stream);
}

}  // namespace lesson04
