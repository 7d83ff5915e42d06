// Exercise of lesson 01: write what is missing here, then `./course exercise 1`.
// What each function promises stands in ../causal_attention.h. The lesson's version is
// ../causal_attention.cpp: try before you look.

#include "causal_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "attention_tile.h"
#include "common/parallel.h"
#include "common/todo.h"

namespace lesson01 {
namespace {

constexpr int kRowsPerItem = 32;  // rows whose queries go through K and V together

/// Rows [begin, end) of sequence `seq`: the query heads that share one KV head.
/// Token i of its sequence sees the keys of tokens 0 .. i, its own among them.
void attend_rows(const CausalAttentionArgs& args, int seq, int begin, int end, int kv_head) {
  // One Query for each row and each query head that shares this KV head: where its q is, where its
  // output goes, and how many keys it sees. (Row r of a sequence that begins at row f sees r - f +
  // 1.) Then the sequence's K and V of this head, as KvRows, and one call of attend() for all of
  // them. The scale is 1 / sqrt(head_dim).
  KV_TODO("attend_rows");
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

void causal_attention_cpu(const CausalAttentionArgs& args) {
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
