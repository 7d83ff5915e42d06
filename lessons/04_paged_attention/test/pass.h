#pragma once

// Random sequences in a paged cache on the host, for the tests of the CPU kernel.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "lessons/03_paged_blocks/block_table.h"
#include "lessons/03_paged_blocks/kv_blocks.h"
#include "paged_attention.h"
#include "tests/support/naive_attention.h"

namespace lesson04_test {

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Shape {
  int num_heads, num_kv_heads, head_dim;
  size_t q_width() const { return static_cast<size_t>(num_heads * head_dim); }
  size_t kv_width() const { return static_cast<size_t>(num_kv_heads * head_dim); }
};

/// One sequence with random Q, K and V; its values depend on its seed alone.
struct Sequence {
  Sequence(const Shape& shape, int length, uint64_t seed) : len(length) {
    std::mt19937_64 rng(seed);
    const auto tokens = static_cast<size_t>(length);
    q = kvtest::random_floats(rng, tokens * shape.q_width());
    k = kvtest::random_floats(rng, tokens * shape.kv_width());
    v = kvtest::random_floats(rng, tokens * shape.kv_width());
  }
  int len;
  std::vector<float> q, k, v;  // [len, heads, head_dim]
};

/// How a pass is laid out: what must not matter.
struct Layout {
  int block_size = 16;
  float unused = kNaN;   // what every slot without a token holds
  uint64_t shuffle = 1;  // which blocks the sequences get
  int guard_rows = 0;    // of NaN between the blocks
  int bound_slack = 0;   // added to max_seq_len
};

/// Sequences in a paged cache, and the pass whose rows are the last rows_of[i] tokens of each.
class Pass {
 public:
  Pass(const Shape& shape, std::vector<const Sequence*> sequences, std::vector<int> rows_of,
       const Layout& layout)
      : shape_(shape), sequences_(std::move(sequences)), rows_of_(std::move(rows_of)) {
    make_tables(layout);
    make_cache(layout);
    for (size_t i = 0; i < sequences_.size(); ++i) {
      const Sequence& s = *sequences_[i];
      const auto skip = static_cast<size_t>(s.len - rows_of_[i]) * shape.q_width();
      q_.insert(q_.end(), s.q.begin() + static_cast<std::ptrdiff_t>(skip), s.q.end());
      first_row_.push_back(first_row_.back() + rows_of_[i]);
      seq_len_.push_back(s.len);
      args.max_rows_per_seq = std::max(args.max_rows_per_seq, rows_of_[i]);
      args.max_seq_len = std::max(args.max_seq_len, s.len);
    }
    out_.assign(q_.size(), kNaN);
    args.q = q_.data();
    args.out = out_.data();
    args.first_row = first_row_.data();
    args.seq_len = seq_len_.data();
    args.block_tables = tables_.data();
    args.num_seqs = static_cast<int>(sequences_.size());
    args.num_rows = first_row_.back();
    args.max_seq_len += layout.bound_slack;
    args.num_heads = shape.num_heads;
  }

  /// The last rows_of[i] output rows of each sequence.
  std::vector<std::vector<float>> run() {
    std::fill(out_.begin(), out_.end(), kNaN);
    lesson04::fast_paged_attention_cpu(args);
    std::vector<std::vector<float>> outs;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      const auto at = [&](int row) {
        return out_.begin() + row * static_cast<std::ptrdiff_t>(shape_.q_width());
      };
      outs.emplace_back(at(first_row_[i]), at(first_row_[i + 1]));
    }
    return outs;
  }

  lesson04::PagedAttentionArgs args;

 private:
  void make_tables(const Layout& layout) {
    int num_blocks = 3;  // some that nobody has
    for (const Sequence* s : sequences_) {
      const int blocks = lesson03::blocks_for(s->len, layout.block_size);
      num_blocks += blocks;
      args.max_blocks_per_seq = std::max(args.max_blocks_per_seq, blocks + 1);
    }
    std::vector<int32_t> ids(static_cast<size_t>(num_blocks));
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), std::mt19937_64(layout.shuffle));
    // Behind a sequence's last block: a number that must not be followed.
    tables_.assign(sequences_.size() * static_cast<size_t>(args.max_blocks_per_seq), 1 << 30);
    size_t next = 0;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      const int blocks = lesson03::blocks_for(sequences_[i]->len, layout.block_size);
      for (int b = 0; b < blocks; ++b) table(i)[b] = ids[next++];
    }
    args.cache = {.num_blocks = num_blocks,
                  .block_size = layout.block_size,
                  .block_stride = layout.block_size + layout.guard_rows,
                  .num_kv_heads = shape_.num_kv_heads,
                  .head_dim = shape_.head_dim};
  }

  void make_cache(const Layout& layout) {
    const size_t width = shape_.kv_width();
    const auto stride = static_cast<size_t>(args.cache.block_stride) * width;
    k_.assign(static_cast<size_t>(args.cache.num_blocks) * stride, kNaN);
    for (auto block = k_.begin(); block != k_.end(); block += static_cast<std::ptrdiff_t>(stride)) {
      std::fill_n(block, static_cast<size_t>(layout.block_size) * width, layout.unused);
    }
    v_ = k_;
    args.cache.k = k_.data();
    args.cache.v = v_.data();
    for (size_t i = 0; i < sequences_.size(); ++i) {
      for (int t = 0; t < sequences_[i]->len; ++t) {
        const int32_t id = table(i)[t / layout.block_size];
        const int offset = t % layout.block_size;
        const auto from = static_cast<size_t>(t) * width;
        std::copy_n(&sequences_[i]->k[from], width, lesson03::k_row<float>(args.cache, id, offset));
        std::copy_n(&sequences_[i]->v[from], width, lesson03::v_row<float>(args.cache, id, offset));
      }
    }
  }

  int32_t* table(size_t seq) {
    return tables_.data() + seq * static_cast<size_t>(args.max_blocks_per_seq);
  }

  Shape shape_;
  std::vector<const Sequence*> sequences_;
  std::vector<int> rows_of_;
  std::vector<int32_t> tables_, first_row_{0}, seq_len_;
  std::vector<float> q_, out_, k_, v_;
};

}  // namespace lesson04_test
