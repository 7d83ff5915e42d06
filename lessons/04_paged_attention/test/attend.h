#pragma once

// Paged attention over random sequences, on either device, and what must hold of every kernel.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>

#include "common/kernel.h"
#include "lessons/01_no_cache/test/attend.h"
#include "lessons/03_paged_blocks/test/guards.h"
#include "lessons/04_paged_attention/paged_attention.h"
#include "tests/support/attention_runs.h"

namespace lesson04_test {

using kvtest::HeadShape;
using kvtest::Outputs;
using kvtest::Part;
using kvtest::Sequence;
using lesson03_test::Off;

/// Conditions that must not change the result: which blocks the sequences get, and the values in
/// slots without a token.
struct Blocks {
  int block_size = 16;
  uint64_t shuffle = 1;
  kv::BFloat16 unused{0xFFFF};  // NaN
  bool guards = false;          // a debug pool: blocks of NaN before, between and after these
  Off off = {0, 0};             // rows by which the kernel is off
  int first_block = 0;          // blocks in front, never read: they take no memory
  int seq_len_bound = 0;   // 0: the longest sequence; a large one makes the plan expect much work
  bool one_table = false;  // all sequences have the first one's blocks
  int window = 0;
};

/// A kernel, and the workspace it wants (null: none).
struct Op {
  std::function<void(const lesson04::PagedAttentionArgs&, const kv::Stream&)> attend;
  size_t (*workspace_bytes)(const lesson04::PagedAttentionArgs&);
};
inline Op op_of(kv::Kernel kernel) {
  if (kernel == kv::Kernel::kPlain) return {lesson04::paged_attention, nullptr};
  return {lesson04::fast_paged_attention, lesson04::paged_attention_workspace_bytes};
}

/// A pass over sequences in shuffled blocks. Their tables have entries that must not be followed:
/// one after the last block, and those of blocks before the window.
class Pass {
 public:
  Pass(const HeadShape& shape, const std::vector<Part>& parts, const Blocks& blocks,
       kv::Device device)
      : shape_(shape), parts_(parts), stream_(device) {
    std::vector<int32_t> first_row{0}, seq_len;
    int max_rows = 0;
    for (const Part& part : parts) {
      first_row.push_back(first_row.back() + part.num_rows);
      seq_len.push_back(part.sequence->len);
      max_rows = std::max(max_rows, part.num_rows);
    }
    fill_blocks(blocks);
    q_ = kvtest::upload_rows(kvtest::queries_of(shape, parts), stream_);
    first_row_ = kvtest::upload(first_row, stream_);
    seq_len_ = kvtest::upload(seq_len, stream_);
    args.q = q_.data();
    args.first_row = first_row_.as<const int32_t>();
    args.seq_len = seq_len_.as<const int32_t>();
    args.num_seqs = static_cast<int>(parts.size());
    args.num_rows = first_row.back();
    args.max_rows_per_seq = max_rows;
    args.max_seq_len = std::max(*std::ranges::max_element(seq_len), blocks.seq_len_bound);
    args.num_heads = shape.num_heads;
    args.window = blocks.window;
  }

  Outputs run(const Op& op) {
    const auto out = kvtest::poisoned(q_.bytes(), stream_);
    args.out = out.data();
    const auto workspace =
        kvtest::poisoned(op.workspace_bytes ? op.workspace_bytes(args) : 0, stream_, 0);
    args.workspace = workspace.data();
    for (int i = 0; i < 2; ++i) op.attend(args, stream_);  // the workspace serves again
    return kvtest::download_outputs(out, shape_, parts_, stream_);
  }

  lesson04::PagedAttentionArgs args;

 private:
  void fill_blocks(const Blocks& blocks) {
    const int size = blocks.block_size;
    int num_ids = 3, max_blocks = 0;  // three belong to no sequence
    for (const Part& part : parts_) {
      const int needed = lesson03::blocks_for(part.sequence->len, size);
      num_ids += needed;
      max_blocks = std::max(max_blocks, needed + 1);
    }
    std::vector<int32_t> ids(num_ids), tables;
    std::iota(ids.begin(), ids.end(), 0);
    if (blocks.guards) std::ranges::transform(ids, ids.begin(), lesson03_test::between_guards);
    const int num_blocks = blocks.guards ? lesson03_test::with_guards(num_ids) : num_ids;
    std::shuffle(ids.begin(), ids.end(), std::mt19937_64(blocks.shuffle));
    const auto width = static_cast<std::ptrdiff_t>(shape_.kv_width());
    const auto at = [&](kvtest::Rows& rows, int32_t block, int offset) {
      return rows.begin() + (std::ptrdiff_t{block} * size + offset) * width;
    };
    kvtest::Rows k(static_cast<size_t>(num_blocks) * size * shape_.kv_width(),
                   kv::BFloat16{0xFFFF});
    for (const int32_t id : ids) std::fill_n(at(k, id, 0), size * width, blocks.unused);
    kvtest::Rows v = k;
    auto id = ids.begin();
    for (const Part& part : parts_) {
      std::vector<int32_t> table(max_blocks, 1 << 30);
      for (int t = 0; t < part.sequence->len; ++t) {
        if (t % size == 0) table[t / size] = blocks.first_block + *id++;
        const int32_t block = table[t / size] - blocks.first_block;
        std::copy_n(part.sequence->k.begin() + t * width, width, at(k, block, t % size));
        std::copy_n(part.sequence->v.begin() + t * width, width, at(v, block, t % size));
      }
      const int first_query = part.sequence->len - part.num_rows;
      const int forgotten = kv::attention::first_key(first_query, blocks.window) / size;
      std::fill_n(table.begin(), forgotten, 1 << 30);
      if (blocks.one_table && !tables.empty())
        table = {tables.begin(), tables.begin() + max_blocks};
      tables.insert(tables.end(), table.begin(), table.end());
    }
    k_ = kvtest::upload_rows(k, stream_);
    v_ = kvtest::upload_rows(v, stream_);
    tables_ = kvtest::upload(tables, stream_);
    args.block_tables = tables_.as<const int32_t>();
    args.max_blocks_per_seq = max_blocks;
    const int64_t row_bytes = static_cast<int64_t>(shape_.kv_width() * kvtest::row_bytes(stream_));
    const int64_t absent = int64_t{blocks.first_block} * size * row_bytes;
    args.cache = lesson03_test::off_by({.k = kvtest::without_first(k_.data(), absent),
                                        .v = kvtest::without_first(v_.data(), absent),
                                        .num_blocks = blocks.first_block + num_blocks,
                                        .block_size = size,
                                        .num_kv_heads = shape_.num_kv_heads,
                                        .head_dim = shape_.head_dim},
                                       blocks.off.k, blocks.off.v, stream_.device());
  }

  HeadShape shape_;
  std::vector<Part> parts_;
  kv::Stream stream_;
  kv::DeviceBuffer q_, k_, v_, first_row_, seq_len_, tables_;
};

inline kvtest::Attend attend_by(const Op& op, kv::Device device, Blocks blocks = {}) {
  return [=](const HeadShape& shape, const std::vector<Part>& parts) {
    return Pass(shape, parts, blocks, device).run(op);
  };
}
inline kvtest::Attend attend_with(kv::Kernel kernel, kv::Device device, Blocks blocks = {}) {
  return attend_by(op_of(kernel), device, blocks);
}

/// A kernel on a device. On CUDA the fast one plans for the longest sequence; with a large bound it
/// expects much work, and streams.
struct Run {
  kv::Kernel kernel;
  kv::Device device;
  int seq_len_bound = 0;

  kvtest::Attend attend(Blocks blocks = {}) const {
    blocks.seq_len_bound = seq_len_bound;
    return attend_with(kernel, device, blocks);
  }
};
inline constexpr int kMuchWork = 60'000;  // tokens
inline std::vector<Run> runs_on(kv::Device device) {
  std::vector<Run> all{{kv::Kernel::kPlain, device}, {kv::Kernel::kFast, device}};
  if (device == kv::Device::kCuda) all.push_back({kv::Kernel::kFast, device, kMuchWork});
  return all;
}

/// The expected output of a pass: each part's last rows of lesson 01's result.
inline Outputs wanted(const Run& run, const HeadShape& shape, const std::vector<Part>& parts) {
  std::vector<Part> whole;
  for (const Part& part : parts) whole.push_back({part.sequence, part.sequence->len});
  Outputs rows = lesson01_test::attend_with(run.kernel, run.device)(shape, whole);
  for (size_t i = 0; i < parts.size(); ++i) {
    rows[i] = kvtest::last_of(rows[i], shape, parts[i].num_rows);
  }
  return rows;
}

/// The first difference between two outputs; "" if they are equal to the bit.
inline std::string first_difference(const std::vector<float>& found,
                                    const std::vector<float>& expected) {
  if (kvtest::same_bits(found, expected)) return "";
  const auto bits = [](float x) { return std::bit_cast<uint32_t>(x); };
  size_t i = 0;
  while (i < std::min(found.size(), expected.size()) && bits(found[i]) == bits(expected[i])) ++i;
  if (i == found.size() || i == expected.size()) return "not as many elements";
  return fmt::format("element {} of {}: found {}, expected {}", i, found.size(), found[i],
                     expected[i]);
}

inline void check_bits(const Outputs& got, const Outputs& want) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("sequence ", i, " of the pass");
    CHECK(first_difference(got[i], want[i]) == "");
  }
}

/// Every block size, with and without guards between the blocks; blocks in any order; anything in
/// slots without a token; and blocks past 2^31 elements.
inline std::vector<Blocks> all_layouts() {
  std::vector<Blocks> all;
  for (int size = 1; size <= 256; size *= 2) {
    for (const bool guards : {false, true}) all.push_back({.block_size = size, .guards = guards});
  }
  for (const uint64_t seed : {2u, 3u, 4u, 5u}) all.push_back({.shuffle = seed});
  for (const int bits : {0x0000, 0x7F80, 0xFF80, 0x7F7F, 0xFF7F}) {  // 0, infinities, huge
    const kv::BFloat16 unused{static_cast<uint16_t>(bits)};
    for (const int size : {16, 256}) all.push_back({.block_size = size, .unused = unused});
  }
  all.push_back({.first_block = 538'000});  // of 16 x 256 elements: 2.2e9 in front
  return all;
}

/// Only the table says which sequence has a block, so a shared prefix needs nothing from a kernel.
/// `b` has the queries of `a` and other K and V, until its table names a's blocks.
inline void check_shared_blocks(const Run& run) {
  const HeadShape shape{4, 2, 64};
  const Sequence a(shape, 48, 41);
  Sequence b(shape, 48, 42);
  b.q = a.q;
  const Outputs want = wanted(run, shape, {{&a, 1}, {&a, 1}});
  CHECK_FALSE(kvtest::same_bits(run.attend()(shape, {{&a, 1}, {&b, 1}})[1], want[1]));
  check_bits(run.attend({.one_table = true})(shape, {{&a, 1}, {&b, 1}}), want);
}

}  // namespace lesson04_test
