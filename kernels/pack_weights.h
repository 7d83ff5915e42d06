#pragma once

// Weights on their way to the GPU: bf16, in the order in which the product kernels read them.
// (pack_weights.cuh has the layout.)

#include <cstdint>
#include <functional>
#include <span>

#include "common/device.h"
#include "kernels/matmul.h"

namespace kv {

/// How the parts of a product become one matrix.
enum class PackOrder {
  kStacked,      // the rows of part 0, then of part 1, ...
  kInterleaved,  // 8 rows of part 0, 8 rows of part 1, 8 of part 0, ...: {gate, up} for kSiluMul
};

/// A packed matrix and its bytes. `matrix.rows` counts the rows of all parts, without padding.
struct PackedWeights {
  DeviceBuffer buffer;
  Matrix matrix;
};

/// Packs host matrices of any dtype (rounded to bf16, nearest even) into memory of the stream's
/// device. Uploads piece by piece and calls `on_bytes` with each piece's size in the file's dtype,
/// so neither the host nor the device ever holds a second copy. Throws DeviceError if memory is
/// short, std::logic_error for parts that do not fit together.
PackedWeights pack_weights(std::span<const Matrix> parts, PackOrder order, const Stream& stream,
                           const std::function<void(int64_t)>& on_bytes = {});

}  // namespace kv
