#include "causal_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/base/parallel.h"
#include "kernels/attention/attend.h"

namespace lesson01 {

using kv::attention::attend;
using kv::attention::KvRows;
using kv::attention::Query;

namespace {

constexpr int kRowsPerItem = 32;  // rows whose queries go through K and V together

/// Rows [begin, end) of sequence `seq`: the query heads that share one KV head.
/// Token i of its sequence sees the keys of tokens 0 .. i, its own among them.
void attend_rows(const CausalAttentionArgs& args, int seq, int begin, int end, int kv_head) {
  const int64_t row_stride = int64_t{args.num_heads} * args.head_dim;
  const int64_t kv_stride = int64_t{args.num_kv_heads} * args.head_dim;
  const int group = args.num_heads / args.num_kv_heads;  // GQA: heads that share K and V
  const int first = args.first_row[seq];

  std::vector<Query> queries;
  for (int row = begin; row < end; ++row) {
    for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      const int64_t at = row * row_stride + int64_t{head} * args.head_dim;
      queries.push_back({.q = static_cast<const float*>(args.q) + at,
                         .out = static_cast<float*>(args.out) + at,
                         .num_keys = row - first + 1});
    }
  }
  const int64_t kv_begin = first * kv_stride + int64_t{kv_head} * args.head_dim;
  const KvRows rows{.k = static_cast<const float*>(args.k) + kv_begin,
                    .v = static_cast<const float*>(args.v) + kv_begin,
                    .token_stride = kv_stride};
  attend(queries, rows, args.head_dim, 1.0f / std::sqrt(static_cast<float>(args.head_dim)));
}

/// A few rows of one sequence.
struct Item {
  int seq, begin, end;
};

std::vector<Item> cut_into_items(const CausalAttentionArgs& args) {
  std::vector<Item> items;
  for (int seq = 0; seq < args.num_seqs; ++seq) {
    const int end = args.first_row[seq + 1];
    for (int row = args.first_row[seq]; row < end; row += kRowsPerItem) {
      items.push_back({seq, row, std::min(row + kRowsPerItem, end)});
    }
  }
  // Later rows see more keys. Dealt from both ends, any range of items is about the same work.
  std::vector<Item> dealt(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    dealt[i] = i % 2 == 0 ? items[i / 2] : items[items.size() - 1 - i / 2];
  }
  return dealt;
}

}  // namespace

void fast_causal_attention_cpu(const CausalAttentionArgs& args) {
  const std::vector<Item> items = cut_into_items(args);
  const auto num_items = static_cast<int64_t>(items.size());
  kv::parallel_for(num_items * args.num_kv_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Item& item = items[static_cast<size_t>(i % num_items)];
      attend_rows(args, item.seq, item.begin, item.end, static_cast<int>(i / num_items));
    }
  });
}

}  // namespace lesson01
