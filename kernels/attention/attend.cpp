// The CPU twin of the contract, and its specification: contract.h's arithmetic, in loops over wide
// registers.
//
// Every sum below has a written-down order, and multiply and add stay two operations
// (-ffp-contract=off). So wide registers make it faster and change no bit.

#include "kernels/attention/attend.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/every_cpu.h"
#include "kernels/exp.h"

namespace kv::attention {
namespace {

constexpr int kLanes = 16;
using Lanes __attribute__((vector_size(kLanes * sizeof(float)))) = float;  // + and * lane by lane

/// The same lanes in two registers, for a CPU that has none for all: GCC would keep them in memory.
struct Halves {
  using Half __attribute__((vector_size(kLanes / 2 * sizeof(float)))) = float;
  Half low, high;
};
/// sum += a * b, where b may be one number for all lanes.
ALWAYS_INLINE void add_product(Lanes& sum, const Lanes& a, const Lanes& b) { sum += a * b; }
ALWAYS_INLINE void add_product(Lanes& sum, const Lanes& a, float b) { sum += b * a; }
ALWAYS_INLINE void add_product(Halves& sum, const Halves& a, const Halves& b) {
  sum.low += a.low * b.low, sum.high += a.high * b.high;
}
ALWAYS_INLINE void add_product(Halves& sum, const Halves& a, float b) {
  sum.low += b * a.low, sum.high += b * a.high;
}

ALWAYS_INLINE void load(Lanes& lanes, const float* from) {
  std::memcpy(&lanes, from, sizeof lanes);
}
ALWAYS_INLINE void load(Halves& lanes, const float* from) {
  std::memcpy(&lanes.low, from, sizeof lanes.low);
  std::memcpy(&lanes.high, from + kLanes / 2, sizeof lanes.high);
}
ALWAYS_INLINE void store(float* to, const Lanes& lanes) { std::memcpy(to, &lanes, sizeof lanes); }
ALWAYS_INLINE void store(float* to, const Halves& lanes) {
  std::memcpy(to, &lanes.low, sizeof lanes.low);
  std::memcpy(to + kLanes / 2, &lanes.high, sizeof lanes.high);
}

/// Queries that go through a tile together, so that K and V are read once for all of them.
constexpr int kBlock = 4;
struct Block {
  const float* q[kBlock];
  int begin[kBlock];  // of the tile's keys, query r sees begin[r] .. end[r] - 1
  int end[kBlock];
  float p[kBlock][kTileTokens];  // scores, then exp(score - m)
  float m[kBlock];               // the largest score
  float l[kBlock];               // the sum of p
  float* acc[kBlock];            // [head_dim] each
  float spare[kMaxHeadDim];      // acc of a place that has no query
  bool scattered;                // rows of K and V lie apart: they are asked for ahead of time
};

/// Rows to prefetch: they may lie pages apart, where the CPU cannot guess the next one.
constexpr int kRowsAhead = 4;
ALWAYS_INLINE void prefetch_row(const float* row, int head_dim) {
  for (int i = 0; i < head_dim; i += kLanes) __builtin_prefetch(row + i);
}

/// Keys whose dot products with the queries of a block are added up together.
constexpr int kKeys = kLanes / kBlock;

/// sum = the lower half of each 2 * kHalf lanes of a, then of b, plus the upper half.
template <int kHalf, int... kLane>
ALWAYS_INLINE void add_halves(Lanes& sum, const Lanes& a, const Lanes& b,
                              std::integer_sequence<int, kLane...>) {
  sum = __builtin_shufflevector(a, b, (kLane / kHalf * 2 * kHalf + kLane % kHalf)...) +
        __builtin_shufflevector(a, b, (kLane / kHalf * 2 * kHalf + kLane % kHalf + kHalf)...);
}
template <int kHalf, int... kLane>
ALWAYS_INLINE void add_halves(Halves::Half& sum, const Halves& x,
                              std::integer_sequence<int, kLane...>) {
  sum = __builtin_shufflevector(x.low, x.high, (kLane / kHalf * 2 * kHalf + kLane % kHalf)...) +
        __builtin_shufflevector(x.low, x.high,
                                (kLane / kHalf * 2 * kHalf + kLane % kHalf + kHalf)...);
}
template <int kHalf, class All>
ALWAYS_INLINE void add_halves(Halves& sum, const Halves& a, const Halves& b, All) {
  constexpr std::make_integer_sequence<int, kLanes / 2> kOneHalf;
  const Halves first = a, second = b;  // the sum may stand where one of them did
  add_halves<kHalf>(sum.low, first, kOneHalf);
  add_halves<kHalf>(sum.high, second, kOneHalf);
}

/// Lane i of dots[0] becomes the sum of the lanes of dots[i], added by the fixed tree: 8 apart,
/// 4 apart, 2 apart, neighbours.
template <class L>
ALWAYS_INLINE void add_lanes(L (&dots)[kLanes]) {
  constexpr std::make_integer_sequence<int, kLanes> kAll;
  for (int i = 0; i < 8; ++i) add_halves<8>(dots[i], dots[2 * i], dots[2 * i + 1], kAll);
  for (int i = 0; i < 4; ++i) add_halves<4>(dots[i], dots[2 * i], dots[2 * i + 1], kAll);
  for (int i = 0; i < 2; ++i) add_halves<2>(dots[i], dots[2 * i], dots[2 * i + 1], kAll);
  add_halves<1>(dots[0], dots[0], dots[1], kAll);
}

/// p[r][t] = scale * (q_r . k_t). Lane j of a dot product adds up i = j, j + 16, j + 32, ... in
/// this order; then a fixed tree adds the lanes.
template <class L>
ALWAYS_INLINE void score_keys_in(Block& block, const TileRows& rows, int num_keys, int head_dim,
                                 float scale) {
  for (int first = 0; first < num_keys; first += kKeys) {
    L dots[kLanes];  // query r and key t of these: dots[r * kKeys + t]
    for (int t = 0; t < kKeys; ++t) {
      const int at = std::min(first + t, num_keys - 1);  // a place without a key repeats the last
      const float* k = rows.k[at];
      if (block.scattered) {
        prefetch_row(rows.k[std::min(at + kRowsAhead, num_keys - 1)], head_dim);
        prefetch_row(rows.v[at], head_dim);
      }
      L sum[kBlock] = {};
      int i = 0;
      for (; i + kLanes <= head_dim; i += kLanes) {
        L key, query;
        load(key, k + i);
#pragma GCC unroll 4
        for (int r = 0; r < kBlock; ++r) {
          load(query, block.q[r] + i);
          add_product(sum[r], query, key);
        }
      }
#pragma GCC unroll 4
      for (int r = 0; r < kBlock; ++r) {
        if (i < head_dim) {
          float rest[kLanes];
          store(rest, sum[r]);
          for (int j = 0; i + j < head_dim; ++j) rest[j] += block.q[r][i + j] * k[i + j];
          load(sum[r], rest);
        }
        dots[r * kKeys + t] = sum[r];
      }
    }
    add_lanes(dots);
    float scores[kLanes];
    store(scores, dots[0]);
    for (float& score : scores) score *= scale;
    for (int r = 0; r < kBlock; ++r) {
      std::memcpy(block.p[r] + first, scores + r * kKeys, kKeys * sizeof(float));
    }
  }
}
FOR_CPU("default")
void score_keys(Block& block, const TileRows& rows, int num_keys, int head_dim, float scale) {
  score_keys_in<Lanes>(block, rows, num_keys, head_dim, scale);
}
#ifdef SEVERAL_CPUS
FOR_CPU("avx2")
void score_keys(Block& block, const TileRows& rows, int num_keys, int head_dim, float scale) {
  score_keys_in<Halves>(block, rows, num_keys, head_dim, scale);
}
FOR_CPU("avx512f")
void score_keys(Block& block, const TileRows& rows, int num_keys, int head_dim, float scale) {
  score_keys_in<Lanes>(block, rows, num_keys, head_dim, scale);
}
#endif

/// The largest of n scores, lane by lane where there are enough: a maximum has no order.
FOR_EVERY_CPU float largest(const float* p, int n) {
  float most = p[0];
  int t = 0;
  if (n >= kLanes) {
    Lanes lanes, next;
    load(lanes, p);
    for (t = kLanes; t + kLanes <= n; t += kLanes) {
      load(next, p + t);
      lanes = lanes < next ? next : lanes;
    }
    for (int j = 0; j < kLanes; ++j) most = std::max(most, lanes[j]);
  }
  for (; t < n; ++t) most = std::max(most, p[t]);
  return most;
}

/// m, l and p of the first queries of a block. Each sum is in the order of the keys, so every
/// addition waits for the one before it; the queries' sums therefore run side by side. Places
/// without a query are summed, too, and their sums are never read.
void exponentiate(Block& block, int num_queries, int num_keys) {
  for (int r = 0; r < num_queries; ++r) {
    float* const p = block.p[r];
    const int begin = block.begin[r], end = block.end[r];
    if (begin < end) {
      block.m[r] = largest(p + begin, end - begin);
      exp_each(p, num_keys, block.m[r]);
    }
    std::fill(p, p + begin, 0.0f);  // hidden keys add nothing
    std::fill(p + end, p + num_keys, 0.0f);
  }
  float sum[kBlock] = {};
  for (int t = 0; t < num_keys; ++t) {
    for (int r = 0; r < kBlock; ++r) sum[r] += block.p[r][t];
  }
  std::copy_n(sum, kBlock, block.l);
}

/// sum += p[t] * v_t[d .. d + kLanes - 1], for t from begin to end - 1.
template <class L>
ALWAYS_INLINE void add_values(L& sum, const float* p, const TileRows& rows, int d, int begin,
                              int end) {
  L value;
  for (int t = begin; t < end; ++t) {
    load(value, rows.v[t] + d);
    add_product(sum, value, p[t]);
  }
}

/// acc_r[d] = sum of p[r][t] * v_t[d] over the visible keys, in their order. Each query adds the
/// few that not all see by itself; those between, which all do, are added together.
template <class L>
ALWAYS_INLINE void weigh_values_in(Block& block, const TileRows& rows, int head_dim) {
  const int common = *std::max_element(block.begin, block.begin + kBlock);
  const int common_end = std::max(common, *std::min_element(block.end, block.end + kBlock));
  int d = 0;
  for (; d + kLanes <= head_dim; d += kLanes) {
    L sum[kBlock] = {};
    L value;
#pragma GCC unroll 4
    for (int r = 0; r < kBlock; ++r) {
      add_values(sum[r], block.p[r], rows, d, block.begin[r], std::min(common, block.end[r]));
    }
    for (int t = common; t < common_end; ++t) {
      load(value, rows.v[t] + d);
#pragma GCC unroll 4
      for (int r = 0; r < kBlock; ++r) add_product(sum[r], value, block.p[r][t]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kBlock; ++r) {
      add_values(sum[r], block.p[r], rows, d, common_end, block.end[r]);
      store(block.acc[r] + d, sum[r]);
    }
  }
  for (; d < head_dim; ++d) {
    for (int r = 0; r < kBlock; ++r) {
      float sum = 0.0f;
      for (int t = block.begin[r]; t < block.end[r]; ++t) {
        sum += block.p[r][t] * rows.v[t][d];
      }
      block.acc[r][d] = sum;
    }
  }
}

FOR_CPU("default") void weigh_values(Block& block, const TileRows& rows, int head_dim) {
  weigh_values_in<Lanes>(block, rows, head_dim);
}
#ifdef SEVERAL_CPUS
FOR_CPU("avx2") void weigh_values(Block& block, const TileRows& rows, int head_dim) {
  weigh_values_in<Halves>(block, rows, head_dim);
}
FOR_CPU("avx512f") void weigh_values(Block& block, const TileRows& rows, int head_dim) {
  weigh_values_in<Lanes>(block, rows, head_dim);
}
#endif

/// A tile for up to kBlock queries. Its rows are those of token `begin` and the tokens after it:
/// what lies before is seen by no query of the pass.
void attend_block(std::span<const Query> queries, std::span<Progress> progress,
                  const TileRows& tile, bool scattered, int begin, int head_dim, float scale) {
  const int first = begin / kTileTokens * kTileTokens;  // token of the tile
  Block block;
  block.scattered = scattered;
  int num_keys = 0;
  for (size_t r = 0; r < kBlock; ++r) {
    const size_t i = std::min(r, queries.size() - 1);  // a place without a query repeats the last
    block.q[r] = queries[i].q;
    block.acc[r] = r < queries.size() ? progress[r].tile.acc : block.spare;
    const int room = first + kTileTokens - begin;
    block.end[r] = std::clamp(queries[i].num_keys - begin, 0, room);
    block.begin[r] = std::clamp(queries[i].first_key - begin, 0, block.end[r]);
    num_keys = std::max(num_keys, block.end[r]);
  }
  score_keys(block, tile, num_keys, head_dim, scale);
  exponentiate(block, static_cast<int>(queries.size()), num_keys);
  weigh_values(block, tile, head_dim);
  const auto join = [&](Partial& whole, const Partial& part, bool is_first) {
    kv::attention::join(whole, part, is_first, head_dim);
  };
  for (size_t r = 0; r < queries.size(); ++r) {
    if (block.begin[r] == block.end[r]) continue;
    progress[r].tile.m = block.m[r];
    progress[r].tile.l = block.l[r];
    progress[r].begin_tile(first, join);
    progress[r].take_tile(first, join);
  }
}

/// A copy of one tile's rows without gaps: worth its cost if many queries read it, as rows of other
/// heads lie between two tokens, often a whole page of memory.
class TileCopy {
 public:
  /// Copies the rows, and makes `tile` name the copies.
  void take(TileRows& tile, int num_keys, int head_dim) {
    k_.resize(static_cast<size_t>(kTileTokens * head_dim));
    v_.resize(k_.size());
    for (int t = 0; t < num_keys; ++t) {
      float* k = k_.data() + t * head_dim;
      float* v = v_.data() + t * head_dim;
      std::copy_n(tile.k[t], head_dim, k);
      std::copy_n(tile.v[t], head_dim, v);
      tile.k[t] = k;
      tile.v[t] = v;
    }
  }

 private:
  std::vector<float> k_, v_;  // [kTileTokens, head_dim]
};

}  // namespace

void join(Partial& whole, const Partial& part, bool is_first, int head_dim) {
  if (!is_first) return merge(whole, part, head_dim);
  whole.m = part.m;
  whole.l = part.l;
  std::copy_n(part.acc, head_dim, whole.acc);
}

FOR_EVERY_CPU void merge(Partial& a, const Partial& b, int head_dim) {
  const float m = std::max(a.m, b.m);
  const float scale_a = exp_of(a.m - m);
  const float scale_b = exp_of(b.m - m);
  a.m = m;
  a.l = a.l * scale_a + b.l * scale_b;
  for (int d = 0; d < head_dim; ++d) a.acc[d] = a.acc[d] * scale_a + b.acc[d] * scale_b;
}

void KvRows::operator()(int first, int num_tokens, TileRows& rows) const {
  for (int t = 0; t < num_tokens; ++t) {
    rows.k[t] = k + (first + t) * token_stride;
    rows.v[t] = v + (first + t) * token_stride;
  }
}

int attend_tile(const Query& query, const TileRows& rows, int first, int head_dim, float scale,
                Partial& tile, float* scores, float* weights) {
  const int visible = std::clamp(query.num_keys - first, 0, kTileTokens);
  if (visible == 0) return 0;
  Block block;
  block.scattered = true;
  for (int r = 0; r < kBlock; ++r) {
    block.q[r] = query.q;
    block.acc[r] = r == 0 ? tile.acc : block.spare;
    block.begin[r] = 0;
    block.end[r] = visible;
  }
  score_keys(block, rows, visible, head_dim, scale);
  std::copy_n(block.p[0], visible, scores);
  exponentiate(block, 1, visible);
  tile.m = block.m[0];
  tile.l = block.l[0];
  std::copy_n(block.p[0], visible, weights);
  weigh_values(block, rows, head_dim);
  return visible;
}

void attend(std::span<const Query> queries, const FindRows& find_rows, int head_dim, float scale) {
  thread_local std::vector<Progress> progress;  // kept, as they are large; the first join sets them
  if (progress.size() < queries.size()) progress.resize(queries.size());
  thread_local TileCopy copy;
  TileRows tile;
  int min_key = INT_MAX, max_keys = 0;
  for (size_t i = 0; i < queries.size(); ++i) {
    progress[i].first_key = queries[i].first_key;
    min_key = std::min(min_key, queries[i].first_key);
    max_keys = std::max(max_keys, queries[i].num_keys);
  }
  for (int begin = min_key, end = 0; begin < max_keys; begin = end) {
    end = std::min(begin / kTileTokens * kTileTokens + kTileTokens, max_keys);
    const int num_keys = end - begin;
    find_rows(begin, num_keys, tile);
    const bool scattered = queries.size() <= kBlock;
    if (!scattered) copy.take(tile, num_keys, head_dim);
    for (size_t i = 0; i < queries.size(); i += kBlock) {
      const size_t n = std::min<size_t>(kBlock, queries.size() - i);
      attend_block(queries.subspan(i, n), std::span(progress).subspan(i, n), tile, scattered, begin,
                   head_dim, scale);
    }
  }
  for (size_t i = 0; i < queries.size(); ++i) {
    progress[i].end(queries[i].num_keys, [&](Partial& whole, const Partial& part, bool is_first) {
      join(whole, part, is_first, head_dim);
    });
    const Partial& result = progress[i].result;
    for (int d = 0; d < head_dim; ++d) {
      queries[i].out[d] = queries[i].num_keys > 0 ? result.acc[d] / result.l : 0.0f;
    }
  }
}

}  // namespace kv::attention
