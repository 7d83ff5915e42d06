// How a pass on the CPU is cut into pieces of work. No cut changes a bit.

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/parallel.h"
#include "kernels/attention/attend.h"

namespace kv::attention {
namespace {

constexpr int kRowsPerItem = 32;  // rows whose queries go through K and V together

/// A few query rows of one sequence.
struct Item {
  int seq, begin, end;
};

std::vector<Item> cut_into_items(const Queries& queries) {
  std::vector<Item> items;
  for (int seq = 0; seq < queries.num_seqs; ++seq) {
    const int end = queries.first_row[seq + 1];
    for (int row = queries.first_row[seq]; row < end; row += kRowsPerItem) {
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

/// The query heads that share one KV head, of a few rows, against their sequence's keys.
template <class Find>
void attend_item(const Queries& queries, const Item& item, int kv_head, const Find& find_rows) {
  const int group = queries.num_heads / queries.num_kv_heads;  // GQA: heads that share K and V
  std::vector<Query> together;
  for (int row = item.begin; row < item.end; ++row) {
    for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      together.push_back(query_of(queries, item.seq, row, head));
    }
  }
  attend(together, find_rows, queries.head_dim, score_scale(queries.head_dim));
}

template <class Find>
void attend_items(const Queries& queries, const std::function<Find(int, int)>& rows_of) {
  const std::vector<Item> items = cut_into_items(queries);
  const auto num_items = static_cast<int64_t>(items.size());
  kv::parallel_for(num_items * queries.num_kv_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Item& item = items[static_cast<size_t>(i % num_items)];
      const auto kv_head = static_cast<int>(i / num_items);
      attend_item(queries, item, kv_head, rows_of(item.seq, kv_head));
    }
  });
}

}  // namespace

float score_scale(int head_dim) { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }

Query query_of(const Queries& queries, int seq, int row, int head) {
  const int64_t at = (int64_t{row} * queries.num_heads + head) * queries.head_dim;
  const int end = queries.first_row[seq + 1];
  const int seq_len =
      queries.seq_len != nullptr ? queries.seq_len[seq] : end - queries.first_row[seq];
  // The sequence's last row is its last token; the row before it, the token before; and so on.
  const int position = seq_len - (end - row);
  return {.q = static_cast<const float*>(queries.q) + at,
          .out = queries.out != nullptr ? static_cast<float*>(queries.out) + at : nullptr,
          .num_keys = position + 1,
          .first_key = first_key(position, queries.window)};
}

void attend_pass(const Queries& queries,
                 const std::function<FindRows(int seq, int kv_head)>& rows_of) {
  attend_items(queries, rows_of);
}

void attend_pass(const Queries& queries,
                 const std::function<FindFp8Rows(int seq, int kv_head)>& rows_of) {
  attend_items(queries, rows_of);
}

}  // namespace kv::attention
