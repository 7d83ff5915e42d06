#include "decode_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/base/parallel.h"
#include "kernels/attention/attend.h"

namespace lesson02 {

using kv::attention::attend;
using kv::attention::KvRows;
using kv::attention::Query;

namespace {

constexpr int kRowsPerItem = 32;  // rows whose queries go through K and V together

/// A few query rows of one sequence.
struct Item {
  int seq, begin, end;
};

std::vector<Item> cut_into_items(const DecodeAttentionArgs& args) {
  std::vector<Item> items;
  for (int seq = 0; seq < args.num_seqs; ++seq) {
    const int end = args.first_row[seq + 1];
    for (int row = args.first_row[seq]; row < end; row += kRowsPerItem) {
      items.push_back({seq, row, std::min(row + kRowsPerItem, end)});
    }
  }
  return items;
}

/// The query heads that share one KV head, of a few rows, against their sequence's slab.
void attend_item(const DecodeAttentionArgs& args, const Item& item, int kv_head) {
  const int64_t row_stride = int64_t{args.num_heads} * args.head_dim;
  const int64_t kv_stride = int64_t{args.num_kv_heads} * args.head_dim;
  const int group = args.num_heads / args.num_kv_heads;  // GQA: heads that share K and V
  // The sequence's last row is its last token; the row before it, the token before; and so on.
  const int position_of_row_0 = args.seq_len[item.seq] - args.first_row[item.seq + 1];

  std::vector<Query> queries;
  for (int row = item.begin; row < item.end; ++row) {
    for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      const int64_t at = row * row_stride + int64_t{head} * args.head_dim;
      queries.push_back({.q = static_cast<const float*>(args.q) + at,
                         .out = static_cast<float*>(args.out) + at,
                         .num_keys = position_of_row_0 + row + 1});
    }
  }
  const int64_t kv_begin = args.slab_begin[item.seq] * kv_stride + int64_t{kv_head} * args.head_dim;
  const KvRows rows{.k = static_cast<const float*>(args.k_cache) + kv_begin,
                    .v = static_cast<const float*>(args.v_cache) + kv_begin,
                    .token_stride = kv_stride};
  attend(queries, rows, args.head_dim, 1.0f / std::sqrt(static_cast<float>(args.head_dim)));
}

}  // namespace

void fast_decode_attention_cpu(const DecodeAttentionArgs& args) {
  const std::vector<Item> items = cut_into_items(args);
  const auto num_items = static_cast<int64_t>(items.size());
  kv::parallel_for(num_items * args.num_kv_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      attend_item(args, items[static_cast<size_t>(i % num_items)], static_cast<int>(i / num_items));
    }
  });
}

}  // namespace lesson02
