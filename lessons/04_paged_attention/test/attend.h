#pragma once

#include <algorithm>
#include <numeric>
#include <random>

#include "common/base/kernel.h"
#include "lessons/03_paged_blocks/test/guards.h"
#include "lessons/04_paged_attention/paged_attention.h"
#include "tests/support/attention_runs.h"

namespace lesson04_test {

/// Which blocks the sequences get, and what stands in slots without a token: what must not matter.
struct Blocks {
  int block_size = 16;
  uint64_t shuffle = 1;
  kv::BFloat16 unused{0xFFFF};      // NaN
  int guard_rows = 0;               // of NaN before, between and after the blocks
  lesson03_test::Off off = {0, 0};  // rows by which the kernel is led astray
  int first_block = 0;              // blocks in front that nobody reads: they take no memory
  int seq_len_bound = 0;  // 0: the longest sequence; a large one makes the plan expect much work
};

/// Sequences in a paged cache on the host: shuffled blocks, and tables with an entry after the last
/// block that must not be followed.
struct PagedRowsOf {
  PagedRowsOf(const kvtest::HeadShape& shape, const std::vector<kvtest::Part>& parts,
              const Blocks& blocks) {
    const int size = blocks.block_size, stride = size + blocks.guard_rows;
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
    const auto at = [&](kvtest::Rows& rows, int32_t block, int offset) {
      return rows.begin() + (blocks.guard_rows + std::ptrdiff_t{block} * stride + offset) * width;
    };
    k.assign(static_cast<size_t>(blocks.guard_rows + num_blocks * stride) * shape.kv_width(),
             kv::BFloat16{0xFFFF});
    for (const int32_t id : ids) std::fill_n(at(k, id, 0), size * width, blocks.unused);
    v = k;
    auto id = ids.begin();
    for (const kvtest::Part& part : parts) {
      std::vector<int32_t> table(static_cast<size_t>(max_blocks), 1 << 30);
      for (int t = 0; t < part.sequence->len; ++t) {
        if (t % size == 0) table[static_cast<size_t>(t / size)] = blocks.first_block + *id++;
        const int32_t block = table[static_cast<size_t>(t / size)] - blocks.first_block;
        std::copy_n(part.sequence->k.begin() + t * width, width, at(k, block, t % size));
        std::copy_n(part.sequence->v.begin() + t * width, width, at(v, block, t % size));
      }
      tables.insert(tables.end(), table.begin(), table.end());
    }
  }
  int num_blocks, max_blocks = 0;
  kvtest::Rows k, v;            // [guard_rows + num_blocks * stride, num_kv_heads, head_dim]
  std::vector<int32_t> tables;  // [sequences, max_blocks]
};

/// The pool in which these rows are, block first_block the first that has memory.
inline lesson03::KvBlocks pool_of(const kv::DeviceBuffer& k, const kv::DeviceBuffer& v,
                                  int num_blocks, const kvtest::HeadShape& shape,
                                  const Blocks& blocks, const kv::Stream& stream) {
  const int stride = blocks.block_size + blocks.guard_rows;
  const int64_t row_bytes = static_cast<int64_t>(shape.kv_width() * kvtest::row_bytes(stream));
  const int64_t begin = (blocks.guard_rows - int64_t{blocks.first_block} * stride) * row_bytes;
  const auto address = [begin](const kv::DeviceBuffer& buffer) {  // may lie before the buffer
    return reinterpret_cast<void*>(reinterpret_cast<intptr_t>(buffer.data()) + begin);
  };
  return lesson03_test::off_by({.k = address(k),
                                .v = address(v),
                                .num_blocks = blocks.first_block + num_blocks,
                                .block_size = blocks.block_size,
                                .block_stride = stride,
                                .num_kv_heads = shape.num_kv_heads,
                                .head_dim = shape.head_dim},
                               blocks.off.k, blocks.off.v, stream.device());
}

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
        .cache = pool_of(k, v, cache.num_blocks, shape, blocks, stream),
        .first_row = rows.as<const int32_t>(),
        .seq_len = lengths.as<const int32_t>(),
        .block_tables = tables.as<const int32_t>(),
        .max_blocks_per_seq = cache.max_blocks,
        .num_seqs = static_cast<int>(parts.size()),
        .num_rows = first_row.back(),
        .max_rows_per_seq = most_rows,
        .max_seq_len =
            std::max(*std::max_element(seq_len.begin(), seq_len.end()), blocks.seq_len_bound),
        .num_heads = shape.num_heads};
    if (kernel == kv::Kernel::kPlain) {
      lesson04::paged_attention(args, stream);
      return kvtest::download_outputs(out, shape, parts, stream);
    }
    const auto workspace =
        kvtest::poisoned(lesson04::paged_attention_workspace_bytes(args), stream, 0);
    args.workspace = workspace.data();
    for (int i = 0; i < 2; ++i) lesson04::fast_paged_attention(args, stream);  // with one workspace
    return kvtest::download_outputs(out, shape, parts, stream);
  };
}

/// Sequences that fill their last block, in a debug pool. A kernel that keeps to the blocks gives
/// the bits that it gives without guards; off by one row of K or V, it gives NaN.
inline void check_attention_in_debug_pool(kv::Kernel kernel, kv::Device device, int seq_len_bound) {
  const kvtest::HeadShape shape{4, 2, 64};
  for (const int block_size : {1, 16, 64}) {
    const kvtest::Sequence a(shape, 320, 1), b(shape, block_size, 2);
    for (const int rows : {1, 40}) {
      const std::vector<kvtest::Part> parts{{&a, rows}, {&b, 1}};
      const auto attend = [&](int guard_rows, lesson03_test::Off off) {
        return attend_with(kernel, device,
                           {.block_size = block_size,
                            .guard_rows = guard_rows,
                            .off = off,
                            .seq_len_bound = seq_len_bound})(shape, parts);
      };
      const kvtest::Outputs want = attend(0, {0, 0});
      for (const lesson03_test::Off off : lesson03_test::kOffByOne) {
        CAPTURE(block_size);
        CAPTURE(rows);
        CAPTURE(off.k);
        CAPTURE(off.v);
        const kvtest::Outputs got = attend(1, off);
        for (size_t i = 0; i < parts.size(); ++i) {
          if (off.right()) {
            CHECK(kvtest::same_bits(got[i], want[i]));
          } else {
            CHECK(std::isnan(got[i].back()));
          }
        }
      }
    }
  }
}

}  // namespace lesson04_test
