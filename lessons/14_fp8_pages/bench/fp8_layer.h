#pragma once

// A layer in FP8 for the benchmarks.

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "common/device.h"
#include "write_kv_fp8.h"

namespace bench {

/// Codes of K, then of V, then scales, so that one plain read covers what attention reads. Each row
/// of `wide` is in its own slot.
class Fp8Layer {
 public:
  Fp8Layer(const lesson14::KvBlocks& wide, const kv::Stream& stream) : layer_{wide} {
    const size_t num_rows = wide.num_blocks * wide.block_size;
    const size_t codes = num_rows * static_cast<size_t>(wide.row_width());
    const size_t scales =
        static_cast<size_t>(wide.num_blocks) * static_cast<size_t>(layer_.scale_stride());
    memory_ = kv::DeviceBuffer(stream.device(), 2 * codes + scales);
    layer_.k = memory_.data();
    layer_.v = memory_.as<uint8_t>() + codes;
    layer_.scales = memory_.as<uint8_t>() + 2 * codes;
    std::vector<int64_t> slots(num_rows);
    std::iota(slots.begin(), slots.end(), int64_t{0});
    const auto d_slots = kv::to_device<int64_t>(slots, stream);
    lesson14::write_kv_fp8({.k = wide.k,
                            .v = wide.v,
                            .slot_mapping = d_slots.as<const int64_t>(),
                            .num_rows = wide.num_blocks * wide.block_size,
                            .cache = layer_},
                           stream);
    stream.synchronize();
  }
  const lesson14::Fp8Blocks& blocks() const { return layer_; }
  kv::DeviceBuffer take_memory() { return std::move(memory_); }

 private:
  lesson14::Fp8Blocks layer_;
  kv::DeviceBuffer memory_;
};

}  // namespace bench
