#pragma once

// Measurements of kernels on a GPU (docs/how-to-measure.md). Calls only queue work.

#include <cstdint>
#include <functional>
#include <span>

#include "common/device.h"

namespace kv {

/// Pseudo-random bf16 in (-1, 1): zeros are faster to multiply.
void fill_random(const DeviceBuffer& buffer, uint32_t seed, const Stream& stream);

/// Seconds of one call: the median over many replays of a graph of call(0) .. call(rotation - 1).
/// Each i reads buffers of its own. With rotation_for() of them, the L2 cache holds no byte that is
/// read next.
double graph_seconds(const Stream& stream, int rotation, const std::function<void(int)>& call);

/// Number of calls whose buffers, `bytes` each, are together at least three times as large as the
/// device's L2 cache.
int rotation_for(double bytes);

/// Seconds of a plain read of copies[i], in one launch, 16 bytes a load and nothing else, in the
/// same way: the ceiling of every kernel that reads these bytes.
double read_seconds(const Stream& stream, std::span<const DeviceBuffer> copies);

/// Bytes per second of a copy of 2 GiB on the device, counting reads and writes: the ceiling of a
/// kernel that only moves bytes.
double copy_bandwidth();

}  // namespace kv
