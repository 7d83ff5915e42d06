// Exercise of lesson 04: write what is missing here, then `./course exercise 4`.
// What each function promises stands in ../paged_attention.h. The lesson's version is
// ../paged_attention.cpp: try before you look.

#include "paged_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "common/parallel.h"
#include "common/todo.h"
#include "paged_rows.h"

namespace lesson04 {

using lesson01::attend;
using lesson01::Query;
using lesson01::TileRows;

namespace {

constexpr int kRowsPerItem = 32;  // rows whose queries go through K and V together

/// A few query rows of one sequence.
struct Item {
  int seq, begin, end;
};

std::vector<Item> cut_into_items(const PagedAttentionArgs& args) {
  std::vector<Item> items;
  for (int seq = 0; seq < args.num_seqs; ++seq) {
    const int end = args.first_row[seq + 1];
    for (int row = args.first_row[seq]; row < end; row += kRowsPerItem) {
      items.push_back({seq, row, std::min(row + kRowsPerItem, end)});
    }
  }
  return items;
}

/// The query heads that share one KV head, of a few rows, against their sequence's blocks.
void attend_item(const PagedAttentionArgs& args, const Item& item, int kv_head) {
  const int group = args.num_heads / args.cache.num_kv_heads;  // GQA: heads that share K and V
  std::vector<Query> queries;
  for (int row = item.begin; row < item.end; ++row) {
    for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      queries.push_back(query_of(args, item.seq, row, head));
    }
  }
  const auto find_rows = [&](int first, int num_tokens, TileRows& rows) {
    find_paged_rows(args, item.seq, kv_head, first, num_tokens, rows);
  };
  attend(queries, find_rows, args.cache.head_dim, score_scale(args));
}

}  // namespace

void check_block_size(int block_size) {
  if (block_size >= 1 && block_size <= kMaxBlockSize &&
      std::has_single_bit(static_cast<unsigned>(block_size))) {
    return;
  }
  throw std::invalid_argument(
      fmt::format("paged_attention: block size {}, wanted a power of two from 1 to {}", block_size,
                  kMaxBlockSize));
}

float score_scale(const PagedAttentionArgs& args) {
  return 1.0f / std::sqrt(static_cast<float>(args.cache.head_dim));
}

Query query_of(const PagedAttentionArgs& args, int seq, int row, int head) {
  // Rows are [rows, num_heads, head_dim]. The sequence's last row is its last token (seq_len - 1),
  // the row before it the token before. A query at position p sees p + 1 keys.
  KV_TODO("query_of");
}

void find_paged_rows(const PagedAttentionArgs& args, int seq, int kv_head, int first,
                     int num_tokens, TileRows& rows) {
  // For tokens first .. first + num_tokens - 1 the addresses of their K and V for this head. The
  // table gives the block of token / block_size; lesson03::k_row and v_row give a slot's row, which
  // holds all KV heads. Look into the table once for each block, not once for each token.
  KV_TODO("find_paged_rows");
}

void paged_attention_cpu(const PagedAttentionArgs& args) {
  check_block_size(args.cache.block_size);
  const std::vector<Item> items = cut_into_items(args);
  const auto num_items = static_cast<int64_t>(items.size());
  kv::parallel_for(num_items * args.cache.num_kv_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      attend_item(args, items[static_cast<size_t>(i % num_items)], static_cast<int>(i / num_items));
    }
  });
}

}  // namespace lesson04
