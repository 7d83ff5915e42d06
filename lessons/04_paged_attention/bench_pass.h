#pragma once

// What the benchmarks on a GPU measure on: a decode step of sequences in random blocks.

#include <cstdint>
#include <vector>

#include "common/base/device.h"
#include "paged_attention.h"

namespace bench {

/// Sequences with one query each. By default Qwen3-0.6B's heads.
struct Case {
  std::vector<int> seq_lens;
  int block_size = 16;
  int num_heads = 16;
};

inline constexpr int kKvHeads = 8, kHeadDim = 128;

/// Bytes of K and V that attention must read.
double bytes_of(const Case& c);

/// The device memory of a case; K and V several times, with other values, so that the L2 cache
/// holds nothing of the copy that is read next. The blocks lie in random order.
class DecodePass {
 public:
  DecodePass(const Case& c, uint64_t seed);

  const kv::Stream& stream() const { return stream_; }
  int num_copies() const { return static_cast<int>(k_.size()); }
  /// Attention over one copy, but for the workspace.
  lesson04::PagedAttentionArgs args(int copy) const;
  /// Seconds of a plain read of a copy.
  double read_seconds() const;

 private:
  void make_tables(uint64_t seed);

  Case case_;
  kv::Stream stream_{kv::Device::kCuda};
  int num_blocks_ = 0, max_blocks_ = 0, longest_ = 0;
  std::vector<kv::DeviceBuffer> k_, v_;
  kv::DeviceBuffer q_, out_, first_row_, seq_len_, tables_;
};

}  // namespace bench
