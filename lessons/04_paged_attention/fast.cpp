// The CPU twin, and the specification: lesson 01's contract, with every row found through the block
// table. The table is read once for each block that a tile touches, not once for each token.

#include "paged_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "common/base/parallel.h"
#include "paged_rows.h"

namespace lesson04 {

using kv::attention::attend;
using kv::attention::Query;
using kv::attention::TileRows;

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
  const int64_t at = (int64_t{row} * args.num_heads + head) * args.cache.head_dim;
  // The sequence's last row is its last token; the row before it, the token before; and so on.
  const int position = args.seq_len[seq] - (args.first_row[seq + 1] - row);
  return {.q = static_cast<const float*>(args.q) + at,
          .out = static_cast<float*>(args.out) + at,
          .num_keys = position + 1};
}

void find_paged_rows(const PagedAttentionArgs& args, int seq, int kv_head, int first,
                     int num_tokens, TileRows& rows) {
  const KvBlocks& cache = args.cache;
  const int32_t* table = args.block_tables + int64_t{seq} * args.max_blocks_per_seq;
  const int64_t width = int64_t{cache.num_kv_heads} * cache.head_dim;
  int done = 0;
  while (done < num_tokens) {
    // A run of tokens that lie in one block: one look into the table, then even distances.
    const int token = first + done;
    const int offset = token % cache.block_size;
    const int run = std::min(cache.block_size - offset, num_tokens - done);
    const int64_t block_id = table[token / cache.block_size];
    const int64_t head_at = int64_t{kv_head} * cache.head_dim;
    const float* k = lesson03::k_row<float>(cache, block_id, offset) + head_at;
    const float* v = lesson03::v_row<float>(cache, block_id, offset) + head_at;
    for (int i = 0; i < run; ++i) {
      rows.k[done + i] = k + i * width;
      rows.v[done + i] = v + i * width;
    }
    done += run;
  }
}

void fast_paged_attention_cpu(const PagedAttentionArgs& args) {
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
