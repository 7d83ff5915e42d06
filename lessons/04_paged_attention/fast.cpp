// Tells kernels/attention where this lesson's rows are. They are found through the block table,
// with one lookup for each block that a tile touches rather than for each token.

#include "fast.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "kernels/attention/plan.h"
#include "lessons/03_paged_blocks/kv_blocks.h"

namespace lesson04 {

using kv::attention::TileRows;

void check_block_size(int block_size) {
  if (block_size >= 1 && block_size <= kMaxBlockSize &&
      std::has_single_bit(static_cast<unsigned>(block_size))) {
    return;
  }
  throw std::invalid_argument(
      fmt::format("paged_attention: block size {}, wanted a power of two from 1 to {}", block_size,
                  kMaxBlockSize));
}

void find_paged_rows(const PagedAttentionArgs& args, int seq, int kv_head, int first,
                     int num_tokens, TileRows& rows) {
  const KvBlocks& cache = args.cache;
  const int32_t* table = args.block_tables + int64_t{seq} * args.max_blocks_per_seq;
  const int64_t width = int64_t{cache.num_kv_heads} * cache.head_dim;
  int done = 0;
  while (done < num_tokens) {
    // Tokens of one block lie a constant stride apart, so a single lookup finds them all.
    const int token = first + done;
    const int offset = token % cache.block_size;
    const int run = std::min(cache.block_size - offset, num_tokens - done);
    const int64_t block_id = table[token / cache.block_size];
    const int64_t head_at = int64_t{kv_head} * cache.head_dim;
    const float* k = lesson03::k_row<float>(cache, block_id, offset) + head_at;
    const float* v = lesson03::v_row<float>(cache, block_id, offset) + head_at;
    for (int i = 0; i < run; ++i) {
      rows.k[done + i] = k + i * width;
      rows.v[done + i] = v + i * width;
    }
    done += run;
  }
}

void fast_paged_attention_cpu(const PagedAttentionArgs& args) {
  check_block_size(args.cache.block_size);
  kv::attention::attend_pass(kv::attention::queries_of(args), [&args](int seq, int kv_head) {
    return [&args, seq, kv_head](int first, int num_tokens, TileRows& rows) {
      find_paged_rows(args, seq, kv_head, first, num_tokens, rows);
    };
  });
}

size_t paged_attention_workspace_bytes(const PagedAttentionArgs& args) {
  return kv::attention::Plan(kv::attention::queries_of(args)).workspace_bytes;
}

}  // namespace lesson04
