// The engine's kernel on the CPU: kernels/attention gets the place of a tile's codes and their
// scales, and widens the codes in registers.

#include <algorithm>

#include "e4m3.h"
#include "fp8_attention.h"
#include "kernels/attention/attend.h"
#include "write_kv_fp8.h"

namespace lesson14 {
namespace {

using kv::attention::Fp8TileRows;
using kv::attention::kTileTokens;

/// Finds the codes and scales of tokens first .. first + num_tokens - 1 of a sequence.
void find_codes(const Fp8AttentionArgs& args, int seq, int kv_head, int first, int num_tokens,
                Fp8TileRows& rows) {
  const Fp8Blocks cache = args.pages();
  const int32_t* table = args.block_tables + int64_t{seq} * args.max_blocks_per_seq;
  const int64_t width = cache.row_width();
  int done = 0;
  while (done < num_tokens) {
    // A run of tokens that lie in one block: one look into the table, then constant strides.
    const int token = first + done;
    const int offset = token % cache.block_size;
    const int run = std::min(cache.block_size - offset, num_tokens - done);
    const int32_t block_id = table[token / cache.block_size];
    const Fp8Head k = fp8_head(cache, true, block_id, offset, kv_head);
    const Fp8Head v = fp8_head(cache, false, block_id, offset, kv_head);
    for (int i = 0; i < run; ++i) {
      rows.k[done + i] = k.codes + i * width;
      rows.v[done + i] = v.codes + i * width;
      rows.widen_k[done + i] = power_of_two(120 + exponent_of(k.scale[i]));
      rows.widen_v[done + i] = power_of_two(120 + exponent_of(v.scale[i]));
    }
    done += run;
  }
  // The next tile's scales: one cache line or two for each of its blocks, anywhere in memory.
  const int end = first + num_tokens;
  const int next_end = std::min(end + kTileTokens, args.seq_len[seq]);
  for (int token = end; token < next_end; token += std::min(cache.block_size, kTileTokens)) {
    const int32_t block_id = table[token / cache.block_size];
    for (const bool is_k : {true, false}) {
      __builtin_prefetch(fp8_head(cache, is_k, block_id, token % cache.block_size, kv_head).scale);
    }
  }
}

}  // namespace

void fast_fp8_attention_cpu(const Fp8AttentionArgs& args) {
  lesson04::check_block_size(args.cache.block_size);
  kv::attention::attend_pass(kv::attention::queries_of(args), [&](int seq, int kv_head) {
    return [&, seq, kv_head](int first, int num_tokens, Fp8TileRows& rows) {
      find_codes(args, seq, kv_head, first, num_tokens, rows);
    };
  });
}

}  // namespace lesson14
