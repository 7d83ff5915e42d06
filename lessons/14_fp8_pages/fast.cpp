// The engine's kernel on the CPU: kernels/attention gets the rows of a tile, decoded when it asks
// for them, once for all queries that share them.

#include <vector>

#include "e4m3.h"
#include "fp8_attention.h"
#include "kernels/attention/attend.h"
#include "write_kv_fp8.h"

namespace lesson14 {
namespace {

using kv::attention::kTileTokens;
using kv::attention::TileRows;

/// The rows of one tile, decoded. A thread has one.
struct DecodedTile {
  std::vector<float> k, v;  // [kTileTokens, head_dim]
};

/// Decodes tokens first .. first + num_tokens - 1 of a sequence, and says where they are.
void decode_tile(const PagedAttentionArgs& args, int seq, int kv_head, int first, int num_tokens,
                 TileRows& rows) {
  thread_local DecodedTile tile;
  const KvBlocks& cache = args.cache;
  const auto head_dim = static_cast<size_t>(cache.head_dim);
  tile.k.resize(kTileTokens * head_dim);
  tile.v.resize(kTileTokens * head_dim);
  const int32_t* table = args.block_tables + int64_t{seq} * args.max_blocks_per_seq;
  for (int i = 0; i < num_tokens; ++i) {
    const int32_t block_id = table[(first + i) / cache.block_size];
    const int offset = (first + i) % cache.block_size;
    for (const bool is_k : {true, false}) {
      const Fp8Head head = fp8_head(cache, is_k, block_id, offset, kv_head);
      const int exponent = exponent_of(*head.scale);
      float* const out = (is_k ? tile.k : tile.v).data() + static_cast<size_t>(i) * head_dim;
      for (size_t d = 0; d < head_dim; ++d) out[d] = decode(head.codes[d], exponent);
      (is_k ? rows.k : rows.v)[i] = out;
    }
  }
}

}  // namespace

void fast_fp8_attention_cpu(const FastFp8AttentionArgs& args) {
  lesson04::check_block_size(args.pass.cache.block_size);
  kv::attention::attend_pass(kv::attention::queries_of(args.pass), [&](int seq, int kv_head) {
    return [&, seq, kv_head](int first, int num_tokens, TileRows& rows) {
      decode_tile(args.pass, seq, kv_head, first, num_tokens, rows);
    };
  });
}

}  // namespace lesson14
