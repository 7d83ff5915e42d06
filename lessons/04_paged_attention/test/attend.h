#pragma once

#include <algorithm>
#include <numeric>
#include <random>

#include "common/base/kernel.h"
#include "lessons/04_paged_attention/paged_attention.h"
#include "tests/support/attention_runs.h"

namespace lesson04_test {

/// Which blocks the sequences get, and what stands in slots without a token: what must not matter.
struct Blocks {
  int block_size = 16;
  uint64_t shuffle = 1;
  kv::BFloat16 unused{0xFFFF};  // NaN
};

/// Sequences in a paged cache on the host: shuffled blocks, and tables with an entry after the last
/// block that must not be followed.
struct PagedRowsOf {
  PagedRowsOf(const kvtest::HeadShape& shape, const std::vector<kvtest::Part>& parts,
              const Blocks& blocks) {
    const int size = blocks.block_size;
    num_blocks = 3;  // some that nobody has
    for (const kvtest::Part& part : parts) {
      const int needed = (part.sequence->len + size - 1) / size;
      num_blocks += needed;
      max_blocks = std::max(max_blocks, needed + 1);
    }
    std::vector<int32_t> ids(static_cast<size_t>(num_blocks));
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), std::mt19937_64(blocks.shuffle));
    const auto width = static_cast<std::ptrdiff_t>(shape.kv_width());
    k.assign(static_cast<size_t>(num_blocks * size) * shape.kv_width(), blocks.unused);
    v = k;
    auto id = ids.begin();
    for (const kvtest::Part& part : parts) {
      std::vector<int32_t> table(static_cast<size_t>(max_blocks), 1 << 30);
      for (int t = 0; t < part.sequence->len; ++t) {
        int32_t& block = table[static_cast<size_t>(t / size)];
        if (t % size == 0) block = *id++;
        const std::ptrdiff_t to = (std::ptrdiff_t{block} * size + t % size) * width;
        std::copy_n(part.sequence->k.begin() + t * width, width, k.begin() + to);
        std::copy_n(part.sequence->v.begin() + t * width, width, v.begin() + to);
      }
      tables.insert(tables.end(), table.begin(), table.end());
    }
  }
  int num_blocks, max_blocks = 0;
  kvtest::Rows k, v;            // [num_blocks, block_size, num_kv_heads, head_dim]
  std::vector<int32_t> tables;  // [sequences, max_blocks]
};

inline kvtest::Attend attend_with(kv::Kernel kernel, kv::Device device, Blocks blocks = {}) {
  return [=](const kvtest::HeadShape& shape, const std::vector<kvtest::Part>& parts) {
    const kv::Stream stream(device);
    const PagedRowsOf cache(shape, parts, blocks);
    std::vector<int32_t> first_row{0}, seq_len;
    int most_rows = 0;
    for (const kvtest::Part& part : parts) {
      first_row.push_back(first_row.back() + part.num_rows);
      seq_len.push_back(part.sequence->len);
      most_rows = std::max(most_rows, part.num_rows);
    }
    const auto q = kvtest::upload_rows(kvtest::queries_of(shape, parts), stream);
    const auto k = kvtest::upload_rows(cache.k, stream);
    const auto v = kvtest::upload_rows(cache.v, stream);
    const auto rows = kvtest::upload(first_row, stream);
    const auto lengths = kvtest::upload(seq_len, stream);
    const auto tables = kvtest::upload(cache.tables, stream);
    const auto out = kvtest::poisoned(q.bytes(), stream);
    lesson04::PagedAttentionArgs args{
        .q = q.data(),
        .out = out.data(),
        .cache = {.k = k.data(),
                  .v = v.data(),
                  .num_blocks = cache.num_blocks,
                  .block_size = blocks.block_size,
                  .num_kv_heads = shape.num_kv_heads,
                  .head_dim = shape.head_dim},
        .first_row = rows.as<const int32_t>(),
        .seq_len = lengths.as<const int32_t>(),
        .block_tables = tables.as<const int32_t>(),
        .max_blocks_per_seq = cache.max_blocks,
        .num_seqs = static_cast<int>(parts.size()),
        .num_rows = first_row.back(),
        .max_rows_per_seq = most_rows,
        .max_seq_len = *std::max_element(seq_len.begin(), seq_len.end()),
        .num_heads = shape.num_heads};
    if (kernel == kv::Kernel::kPlain) {
      lesson04::paged_attention(args, stream);
      return kvtest::download_outputs(out, shape, parts, stream);
    }
    const auto workspace =
        kvtest::poisoned(lesson04::paged_attention_workspace_bytes(args), stream, 0);
    args.workspace = workspace.data();
    lesson04::fast_paged_attention(args, stream);
    return kvtest::download_outputs(out, shape, parts, stream);
  };
}

}  // namespace lesson04_test
