#pragma once

// The pass that the benchmarks measure: sequences in random blocks, on either device. It is a
// decode step unless the case says otherwise.

#include <cstdint>
#include <functional>
#include <vector>

#include "common/device.h"
#include "lessons/04_paged_attention/paged_attention.h"

namespace bench {

/// Sequences. By default with one query each, and Qwen3-0.6B's heads.
struct Case {
  std::vector<int> seq_lens;
  int block_size = 16;
  int num_heads = 16;
  int head_dim = 128;
  int num_kv_heads = 8;
  int window = 0;              // keys that a query sees; 0 means all
  std::vector<int> rows = {};  // [sequences] queries of each; empty means one

  int rows_of(size_t seq) const { return rows.empty() ? 1 : rows[seq]; }
  int num_rows() const;
  /// Index of the first block that the queries of a sequence see. Those before it do not exist.
  int first_block(size_t seq) const;
  /// Number of a sequence's blocks from there on.
  int num_blocks(size_t seq) const;
};

inline std::vector<int> same(int n, int len) { return std::vector<int>(n, len); }

/// The memory of a case. On CUDA there are several copies of K and V, with different values, so
/// that the copy that is read next is not in the L2 cache. The blocks lie in random order.
class MeasuredPass {
 public:
  MeasuredPass(const Case& c, uint64_t seed, kv::Device device);

  const kv::Stream& stream() const { return stream_; }
  const Case& of() const { return case_; }
  /// Bytes of K and V that a decode step must read.
  double bytes() const;
  /// The arguments of attention over one copy, without the workspace.
  lesson04::PagedAttentionArgs args(int copy) const;
  /// Seconds of one call, whose argument is the copy it works on: the median of many.
  double seconds_of(const std::function<void(int)>& call) const;
  /// Seconds of a plain read of a copy, by one kernel.
  double read_seconds() const;

 private:
  void make_tables(uint64_t seed);

  Case case_;
  kv::Stream stream_;
  size_t token_bytes_;  // of K or of V
  int num_blocks_ = 0, max_blocks_ = 0, longest_ = 0;
  std::vector<kv::DeviceBuffer> copies_;  // each: K of all blocks, then V
  kv::DeviceBuffer q_, out_, first_row_, seq_len_, tables_;
};

}  // namespace bench
