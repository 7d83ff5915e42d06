#pragma once

// Attention on the CPU, by the contract: what the lessons' CPU kernels are made of.

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>

#include "kernels/attention/contract.h"
#include "kernels/attention/queries.h"

namespace kv::attention {

/// A query's state after some of its keys. Without keys yet it is empty: what is merged into it
/// stays as it is.
struct Partial {
  float m = std::numeric_limits<float>::lowest();  // a score near the largest so far
  float l = 0.0f;                                  // sum of exp(score - m)
  float acc[kMaxHeadDim] = {};                     // sum of exp(score - m) * v, [head_dim]
};

/// Appends `b`, the later keys, to `a`. The order matters: a is always the earlier part.
void merge(Partial& a, const Partial& b, int head_dim);

/// Addresses of the rows of a tile's tokens, [head_dim] each. Only visible keys are read.
struct TileRows {
  const float* k[kTileTokens];
  const float* v[kTileTokens];
};

/// The same of rows in FP8 (e4m3): their codes, and 2^(120 + e) for a row whose scale is 2^e. A
/// code's bits in the place of a float's exponent and mantissa, times that, are the element; both
/// are exact for e from -117 to 7.
struct Fp8TileRows {
  const uint8_t* k[kTileTokens];
  const uint8_t* v[kTileTokens];
  float widen_k[kTileTokens];
  float widen_v[kTileTokens];
};

/// Fills in the rows of tokens first .. first + num_tokens - 1, all of one tile, of one sequence
/// and KV head. A lesson changes nothing but these addresses.
using FindRows = std::function<void(int first, int num_tokens, TileRows& rows)>;
using FindFp8Rows = std::function<void(int first, int num_tokens, Fp8TileRows& rows)>;

/// Rows at even distances: a FindRows.
struct KvRows {
  const float* k;        // row of token 0: [head_dim]
  const float* v;        // row of token 0: [head_dim]
  int64_t token_stride;  // elements from one token's row to the next

  void operator()(int first, int num_tokens, TileRows& rows) const;
};

/// One query: it sees the keys of tokens first_key .. num_keys - 1.
struct Query {
  const float* q;  // [head_dim]
  float* out;      // [head_dim]; zeros if there is no key
  int num_keys;
  int first_key = 0;
};

/// Queries against the keys of the KV head they share, by the contract. Which queries come in one
/// call, and in which order, changes no bit: it only saves reading K and V again.
void attend(std::span<const Query> queries, const FindRows& find_rows, int head_dim, float scale);
/// The same bits as over the rows' elements in fp32.
void attend(std::span<const Query> queries, const FindFp8Rows& find_rows, int head_dim,
            float scale);

/// Adds one tile of a query without a window to `group`, the state of its group's tiles before it:
/// the step that attend() is made of. `first` is the tile's first token, query.out is not used.
/// Returns the number of visible keys, and sets of each `scores` (q . k * scale) and `weights`
/// (exp(score - m)), kTileTokens of room each.
int attend_tile(const Query& query, const TileRows& rows, int first, int head_dim, float scale,
                Partial& group, float* scores, float* weights);

/// 1 / sqrt(head_dim).
float score_scale(int head_dim);

/// Row `row` of the pass, which belongs to sequence `seq`, and head `head`. `out` is null if the
/// pass's `out` is.
Query query_of(const Queries& queries, int seq, int row, int head);

/// Attention of a whole pass, in fp32; rows_of(seq, kv_head) finds the keys' rows.
void attend_pass(const Queries& queries,
                 const std::function<FindRows(int seq, int kv_head)>& rows_of);
void attend_pass(const Queries& queries,
                 const std::function<FindFp8Rows(int seq, int kv_head)>& rows_of);

/// The same over k and v of [rows, num_kv_heads, head_dim], where the tokens of a sequence lie one
/// after the other from row begin[seq] on.
template <class Index>
void attend_contiguous(const Queries& queries, const void* k, const void* v, const Index* begin) {
  const int64_t stride = int64_t{queries.num_kv_heads} * queries.head_dim;
  attend_pass(queries, [&](int seq, int kv_head) {
    const int64_t at = begin[seq] * stride + int64_t{kv_head} * queries.head_dim;
    return KvRows{.k = static_cast<const float*>(k) + at,
                  .v = static_cast<const float*>(v) + at,
                  .token_stride = stride};
  });
}

}  // namespace kv::attention
