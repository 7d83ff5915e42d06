// The engine's kernel on the CPU: kernels/attention gets the rows of a tile, decoded when it asks
// for them, once for all queries that share them.

#include <algorithm>
#include <vector>

#include "e4m3.h"
#include "fp8_attention.h"
#include "kernels/attention/attend.h"
#include "kernels/every_cpu.h"
#include "write_kv_fp8.h"

namespace lesson14 {
namespace {

using kv::attention::kTileTokens;
using kv::attention::TileRows;

/// decode() of `n` codes, 32 at a time while there are as many: a compiler makes wide registers of
/// the inner loop, as its length is known and nothing in it overlaps.
FOR_EVERY_CPU void decode_codes(const uint8_t* __restrict codes, int n, int exponent,
                                float* __restrict out) {
  constexpr int kAtOnce = 32;
  const int whole = n / kAtOnce * kAtOnce;
  for (int first = 0; first < whole; first += kAtOnce) {
    for (int i = 0; i < kAtOnce; ++i) out[first + i] = decode(codes[first + i], exponent);
  }
  for (int d = whole; d < n; ++d) out[d] = decode(codes[d], exponent);
}

/// Heads that are asked for ahead of time: a head of the next token lies a row further, or in
/// another block, where the CPU cannot guess it.
constexpr int kTokensAhead = 4;
constexpr int kCacheLine = 64;  // codes, a byte each

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
  const auto head_of = [&](bool is_k, int i) {
    const int32_t block_id = table[(first + i) / cache.block_size];
    return fp8_head(cache, is_k, block_id, (first + i) % cache.block_size, kv_head);
  };
  for (int i = 0; i < num_tokens; ++i) {
    for (const bool is_k : {true, false}) {
      const Fp8Head later = head_of(is_k, std::min(i + kTokensAhead, num_tokens - 1));
      for (int d = 0; d < cache.head_dim; d += kCacheLine) __builtin_prefetch(later.codes + d);
      const Fp8Head head = head_of(is_k, i);
      float* const out = (is_k ? tile.k : tile.v).data() + static_cast<size_t>(i) * head_dim;
      decode_codes(head.codes, cache.head_dim, exponent_of(*head.scale), out);
      (is_k ? rows.k : rows.v)[i] = out;
    }
  }
}

}  // namespace

void fast_fp8_attention_cpu(const PagedAttentionArgs& args) {
  lesson04::check_block_size(args.cache.block_size);
  kv::attention::attend_pass(kv::attention::queries_of(args), [&](int seq, int kv_head) {
    return [&, seq, kv_head](int first, int num_tokens, TileRows& rows) {
      decode_tile(args, seq, kv_head, first, num_tokens, rows);
    };
  });
}

}  // namespace lesson14
