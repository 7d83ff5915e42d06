// The CPU twin of the contract, and its specification: contract.h's arithmetic, in loops over wide
// registers.
//
// Every sum below has a written-down order, and multiply and add stay two operations
// (-ffp-contract=off). So wide registers make it faster and change no bit.

#include "kernels/attention/attend.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/attention/lanes.h"
#include "kernels/attention/tile_rows.h"
#include "kernels/every_cpu.h"
#include "kernels/exp.h"

namespace kv::attention {
namespace {

/// Queries that go through a tile together, so that K and V are read once for all of them.
constexpr int kBlock = 4;
struct Block {
  int num_queries;  // 2 or 4: the places that are computed
  const float* q[kBlock];
  int begin[kBlock];  // of the tile's keys, query r sees begin[r] .. end[r] - 1
  int end[kBlock];
  float p[kBlock][kTileTokens];  // scores, then exp(score - m)
  Partial* group[kBlock];        // what the tile is added to
  Partial spare;                 // that of a place that has no query
};

/// p[r][t] = scale * (q_r . k_t). Lane j of a dot product adds up i = j, j + 16, j + 32, ... in
/// this order; then a fixed tree adds the lanes.
template <class L, int kQueries, class Rows>
ALWAYS_INLINE void score_queries(Block& block, const Tile<Rows>& tile, int head_dim, float scale) {
  constexpr int kKeys = kLanes / kQueries;  // whose dot products are added up together
  for (int first = 0; first < tile.num_keys; first += kKeys) {
    L dots[kLanes];  // query r and key t of these: dots[r * kKeys + t]
    for (int t = 0; t < kKeys; ++t) {
      const int at = std::min(first + t, tile.num_keys - 1);  // a place without a key: the last
      const auto k = k_row(tile.rows, at);
      if (tile.scattered) prefetch(tile, at, head_dim);
      L sum[kQueries] = {};
      int i = 0;
      for (; i + kLanes <= head_dim; i += kLanes) {
        L key, query;
        load(key, k, i);
#pragma GCC unroll 4
        for (int r = 0; r < kQueries; ++r) {
          load(query, block.q[r] + i);
          add_product(sum[r], query, key);
        }
      }
#pragma GCC unroll 4
      for (int r = 0; r < kQueries; ++r) {
        if (i < head_dim) {
          float rest[kLanes];
          store(rest, sum[r]);
          for (int j = 0; i + j < head_dim; ++j) rest[j] += block.q[r][i + j] * element(k, i + j);
          load(sum[r], rest);
        }
        dots[r * kKeys + t] = sum[r];
      }
    }
    add_lanes(dots);
    float scores[kLanes];
    store(scores, dots[0]);
    for (float& score : scores) score *= scale;
    for (int r = 0; r < kQueries; ++r) {
      std::memcpy(block.p[r] + first, scores + r * kKeys, kKeys * sizeof(float));
    }
  }
}

/// Registers of a row of V whose sums run side by side, so that a weight is loaded once for them.
template <class L>
constexpr int kPartsOf = std::is_same_v<L, Lanes> ? 4 : 1;

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

/// Moves m to the tile's largest score if it is far above, and the sums so far with it.
FOR_EVERY_CPU void move_m(Partial& group, float largest, int head_dim) {
  if (!(largest > group.m + kLogMaxWeight)) return;
  const float factor = exp_of(group.m - largest);
  group.m = largest;
  group.l *= factor;
  for (int d = 0; d < head_dim; ++d) group.acc[d] *= factor;
}

/// m, l and p of a block's places; what belongs to a place without a query is never read. Each sum
/// is in the order of the keys, so every addition waits for the one before it; the queries' sums
/// therefore run side by side.
template <int kQueries>
ALWAYS_INLINE void exponentiate(Block& block, int num_keys, int head_dim) {
  float sum[kQueries];
  for (int r = 0; r < kQueries; ++r) {
    float* const p = block.p[r];
    const int begin = block.begin[r], end = block.end[r];
    if (begin < end) {
      move_m(*block.group[r], largest(p + begin, end - begin), head_dim);
      exp_each(p, num_keys, block.group[r]->m);
    }
    std::fill(p, p + begin, 0.0f);  // hidden keys add nothing
    std::fill(p + end, p + num_keys, 0.0f);
    sum[r] = block.group[r]->l;
  }
  for (int t = 0; t < num_keys; ++t) {
    for (int r = 0; r < kQueries; ++r) sum[r] += block.p[r][t];
  }
  for (int r = 0; r < kQueries; ++r) block.group[r]->l = sum[r];
}

/// sum += p[t] * v_t[d .. d + kLanes - 1], for t from begin to end - 1.
template <class L, class Rows>
ALWAYS_INLINE void add_values(L& sum, const float* p, const Rows& rows, int d, int begin, int end) {
  L value;
  for (int t = begin; t < end; ++t) {
    load(value, v_row(rows, t), d);
    add_product(sum, value, p[t]);
  }
}

/// acc_r[d] += p[r][t] * v_t[d] for each visible key t, in their order, for the next
/// kParts * kLanes elements d. Each query adds the few keys that not all see by itself; those
/// between, which all do, are added together.
template <class L, int kQueries, int kParts, class Rows>
ALWAYS_INLINE void weigh_part(Block& block, const Rows& rows, int d, int common, int common_end) {
  L sum[kQueries][kParts];
  L value;
#pragma GCC unroll 4
  for (int r = 0; r < kQueries; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < kParts; ++i) {
      load(sum[r][i], block.group[r]->acc + d + i * kLanes);
      add_values(sum[r][i], block.p[r], rows, d + i * kLanes, block.begin[r],
                 std::min(common, block.end[r]));
    }
  }
  for (int t = common; t < common_end; ++t) {
    const auto row = v_row(rows, t);
#pragma GCC unroll 4
    for (int i = 0; i < kParts; ++i) {
      load(value, row, d + i * kLanes);
#pragma GCC unroll 4
      for (int r = 0; r < kQueries; ++r) add_product(sum[r][i], value, block.p[r][t]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kQueries; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < kParts; ++i) {
      add_values(sum[r][i], block.p[r], rows, d + i * kLanes, common_end, block.end[r]);
      store(block.group[r]->acc + d + i * kLanes, sum[r][i]);
    }
  }
}
template <class L, int kQueries, class Rows>
ALWAYS_INLINE void weigh_values(Block& block, const Rows& rows, int head_dim) {
  const int common = *std::max_element(block.begin, block.begin + kQueries);
  const int common_end = std::max(common, *std::min_element(block.end, block.end + kQueries));
  constexpr int kParts = kPartsOf<L>;
  int d = 0;
  for (; d + kParts * kLanes <= head_dim; d += kParts * kLanes) {
    weigh_part<L, kQueries, kParts>(block, rows, d, common, common_end);
  }
  for (; d + kLanes <= head_dim; d += kLanes) {
    weigh_part<L, kQueries, 1>(block, rows, d, common, common_end);
  }
  for (; d < head_dim; ++d) {
    for (int r = 0; r < kQueries; ++r) {
      for (int t = block.begin[r]; t < block.end[r]; ++t) {
        block.group[r]->acc[d] += block.p[r][t] * element(v_row(rows, t), d);
      }
    }
  }
}

/// Adds a tile to the groups of a block's queries. `scores`, if given, gets those of the first one.
template <class L, int kQueries, class Rows>
ALWAYS_INLINE void attend_queries(Block& block, const Tile<Rows>& tile, int head_dim, float scale,
                                  float* scores) {
  score_queries<L, kQueries>(block, tile, head_dim, scale);
  if (scores != nullptr) std::copy_n(block.p[0], tile.num_keys, scores);
  exponentiate<kQueries>(block, tile.num_keys, head_dim);
  weigh_values<L, kQueries>(block, tile.rows, head_dim);
}
template <class L, class Rows>
ALWAYS_INLINE void attend_keys_in(Block& block, const Tile<Rows>& tile, int head_dim, float scale,
                                  float* scores) {
  block.num_queries == 2 ? attend_queries<L, 2>(block, tile, head_dim, scale, scores)
                         : attend_queries<L, kBlock>(block, tile, head_dim, scale, scores);
}
#define ATTEND_KEYS(CPU, Register, Rows)                                            \
  FOR_CPU(CPU)                                                                      \
  void attend_keys(Block& block, const Tile<Rows>& tile, int head_dim, float scale, \
                   float* scores) {                                                 \
    attend_keys_in<Register>(block, tile, head_dim, scale, scores);                 \
  }
ATTEND_KEYS("default", Lanes, TileRows)
ATTEND_KEYS("default", Lanes, Fp8TileRows)
#ifdef SEVERAL_CPUS
ATTEND_KEYS("avx2", Halves, TileRows)
ATTEND_KEYS("avx2", Halves, Fp8TileRows)
ATTEND_KEYS("avx512f", Lanes, TileRows)
ATTEND_KEYS("avx512f", Lanes, Fp8TileRows)
#endif

/// A query's way through its tiles.
struct Sums {
  Partial result;  // of complete groups
  Partial group;
};

/// A tile for up to kBlock queries. Its rows are those of token `begin` and the tokens after it:
/// what lies before is seen by no query of the pass.
template <class Rows>
void attend_block(std::span<const Query> queries, std::span<Sums> sums, const Tile<Rows>& tile,
                  int begin, int head_dim, float scale) {
  const int first = begin / kTileTokens * kTileTokens;  // token of the tile
  Block block;
  block.num_queries = queries.size() <= 2 ? 2 : kBlock;
  for (size_t r = 0; r < kBlock; ++r) {
    const size_t i = std::min(r, queries.size() - 1);  // a place without a query repeats the last
    const int room = first + kTileTokens - begin;
    block.q[r] = queries[i].q;
    block.end[r] = std::clamp(queries[i].num_keys - begin, 0, room);
    block.begin[r] = std::clamp(queries[i].first_key - begin, 0, block.end[r]);
    block.group[r] = r < queries.size() ? &sums[r].group : &block.spare;
    if (r >= queries.size() || block.begin[r] == block.end[r] || first % kGroupTokens != 0)
      continue;
    merge(sums[r].result, sums[r].group, head_dim);
    sums[r].group = {};
  }
  Tile<Rows> seen = tile;
  seen.num_keys = *std::max_element(block.end, block.end + kBlock);
  if (seen.num_keys > 0) attend_keys(block, seen, head_dim, scale, nullptr);
}

FOR_EVERY_CPU void widen_row(const Fp8Row& row, int head_dim, float* out) {
  int d = 0;
  for (; d + kLanes <= head_dim; d += kLanes) {
    Lanes lanes;
    load(lanes, row, d);
    store(out + d, lanes);
  }
  for (; d < head_dim; ++d) out[d] = element(row, d);
}
void widen_row(const float* row, int head_dim, float* out) { std::copy_n(row, head_dim, out); }

/// A copy of one tile's rows, in fp32 and without gaps: worth its cost if many queries read it, as
/// rows of other heads lie between two tokens, often a whole page of memory.
class TileCopy {
 public:
  template <class Rows>
  const TileRows& of(const Rows& rows, int num_keys, int head_dim) {
    k_.resize(static_cast<size_t>(kTileTokens * head_dim));
    v_.resize(k_.size());
    for (int t = 0; t < num_keys; ++t) {
      float* k = k_.data() + t * head_dim;
      float* v = v_.data() + t * head_dim;
      widen_row(k_row(rows, t), head_dim, k);
      widen_row(v_row(rows, t), head_dim, v);
      rows_.k[t] = k;
      rows_.v[t] = v;
    }
    return rows_;
  }

 private:
  std::vector<float> k_, v_;  // [kTileTokens, head_dim]
  TileRows rows_;
};

/// attend(), for either kind of rows.
template <class Rows, class Find>
void attend_rows(std::span<const Query> queries, const Find& find_rows, int head_dim, float scale) {
  thread_local std::vector<Sums> sums;  // kept, as they are large
  sums.assign(queries.size(), {});
  thread_local TileCopy copy;
  int min_key = INT_MAX, max_keys = 0;
  for (size_t i = 0; i < queries.size(); ++i) {
    min_key = std::min(min_key, queries[i].first_key);
    max_keys = std::max(max_keys, queries[i].num_keys);
  }
  const auto end_of_tile = [&](int begin) {
    return std::min(begin / kTileTokens * kTileTokens + kTileTokens, max_keys);
  };
  Rows found[2];  // of this tile and of the next one, in turns
  for (int begin = min_key, end = 0, turn = 0; begin < max_keys; begin = end, turn ^= 1) {
    const bool is_first = end == 0;
    end = end_of_tile(begin);
    if (is_first) find_rows(begin, end - begin, found[turn]);
    const int num_next = end < max_keys ? end_of_tile(end) - end : 0;
    if (num_next > 0) find_rows(end, num_next, found[turn ^ 1]);
    const auto attend_tile = [&](const auto& tile) {
      for (size_t i = 0; i < queries.size(); i += kBlock) {
        const size_t n = std::min<size_t>(kBlock, queries.size() - i);
        attend_block(queries.subspan(i, n), std::span(sums).subspan(i, n), tile, begin, head_dim,
                     scale);
      }
    };
    if (queries.size() <= kBlock) {
      attend_tile(Tile<Rows>{.rows = found[turn],
                             .num_keys = end - begin,
                             .scattered = true,
                             .next = &found[turn ^ 1],
                             .num_next = num_next});
    } else {
      attend_tile(Tile<TileRows>{.rows = copy.of(found[turn], end - begin, head_dim),
                                 .num_keys = end - begin});
    }
  }
  for (size_t i = 0; i < queries.size(); ++i) {
    Partial& result = sums[i].result;
    merge(result, sums[i].group, head_dim);
    for (int d = 0; d < head_dim; ++d) {
      queries[i].out[d] = queries[i].num_keys > 0 ? result.acc[d] / result.l : 0.0f;
    }
  }
}

}  // namespace

FOR_EVERY_CPU void merge(Partial& a, const Partial& b, int head_dim) {
  const float m = std::max(a.m, b.m);
  float scales[] = {a.m - m, b.m - m};
  exp_each(scales, 2);
  const auto [scale_a, scale_b] = scales;
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
                Partial& group, float* scores, float* weights) {
  const int visible = std::clamp(query.num_keys - first, 0, kTileTokens);
  if (visible == 0) return 0;
  Block block;
  block.num_queries = 2;  // both are this one
  for (int r = 0; r < kBlock; ++r) {
    block.q[r] = query.q;
    block.group[r] = r == 0 ? &group : &block.spare;
    block.begin[r] = 0;
    block.end[r] = visible;
  }
  attend_keys(block, Tile<TileRows>{.rows = rows, .num_keys = visible}, head_dim, scale, scores);
  std::copy_n(block.p[0], visible, weights);
  return visible;
}

void attend(std::span<const Query> queries, const FindRows& find_rows, int head_dim, float scale) {
  attend_rows<TileRows>(queries, find_rows, head_dim, scale);
}
void attend(std::span<const Query> queries, const FindFp8Rows& find_rows, int head_dim,
            float scale) {
  attend_rows<Fp8TileRows>(queries, find_rows, head_dim, scale);
}

}  // namespace kv::attention
