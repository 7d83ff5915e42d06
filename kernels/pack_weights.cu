// Packing: raw rows are uploaded in pieces, and a kernel converts and scatters each piece.
// Bound by the host-to-device copy; the kernel is not worth tuning.

#include "kernels/pack_weights.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <stdexcept>

#include "kernels/launch.cuh"
#include "kernels/pack_weights.cuh"

namespace kv {
namespace {

constexpr int64_t kPieceBytes = 32 << 20;
constexpr int kThreadsPerCta = 256;

/// Uploaded rows of part number `part`, from first_row on.
struct Piece {
  const void* raw = nullptr;  // [num_rows, cols], row-major
  DType dtype = DType::kBF16;
  int num_rows = 0;
  int cols = 0;
  int part = 0;
  int first_row = 0;    // within the part
  int rows_before = 0;  // rows of the parts before it
  PackOrder order = PackOrder::kStacked;
};

__device__ int packed_row(const Piece& piece, int row) {
  const int in_part = piece.first_row + row;
  if (piece.order == PackOrder::kStacked) return piece.rows_before + in_part;
  return (2 * (in_part / kTileRows) + piece.part) * kTileRows + in_part % kTileRows;
}

__device__ __nv_bfloat16 element(const Piece& piece, int64_t index) {
  switch (piece.dtype) {
    case DType::kF32:
      return __float2bfloat16_rn(static_cast<const float*>(piece.raw)[index]);
    case DType::kF16:
      return __float2bfloat16_rn(__half2float(static_cast<const __half*>(piece.raw)[index]));
    default:
      return static_cast<const __nv_bfloat16*>(piece.raw)[index];
  }
}

// Grid: one thread per element of the piece. `out` was filled with zeros, which are its padding.
__global__ void pack_kernel(const Piece piece, __nv_bfloat16* out) {
  let_successors_start();
  wait_for_predecessors();
  const int64_t index = int64_t{blockIdx.x} * kThreadsPerCta + threadIdx.x;
  if (index >= static_cast<int64_t>(piece.num_rows) * piece.cols) return;
  const int row = static_cast<int>(index / piece.cols);
  const int col = static_cast<int>(index % piece.cols);
  out[packed_index(packed_row(piece, row), col, piece.cols)] = element(piece, index);
}

void check_parts(std::span<const Matrix> parts, PackOrder order) {
  const bool pair = order == PackOrder::kInterleaved;
  if (parts.empty() || (pair && (parts.size() != 2 || parts[0].rows != parts[1].rows))) {
    throw std::logic_error("pack_weights: parts that cannot be interleaved");
  }
  for (const Matrix& part : parts) {
    if (part.cols != parts[0].cols) {
      throw std::logic_error("pack_weights: parts of different widths");
    }
  }
}

int64_t packed_bytes(int rows, int cols, PackOrder order) {
  // Whole tiles of 16 rows; each half of an interleaved pair is padded to 8 separately.
  const int64_t padded = order == PackOrder::kInterleaved
                             ? (int64_t{rows} / 2 + kTileRows - 1) / kTileRows * kTileRows * 2
                             : (int64_t{rows} + 15) / 16 * 16;
  return padded * tiles_per_strip(cols) * kTileCols * static_cast<int64_t>(size_of(DType::kBF16));
}

}  // namespace

PackedWeights pack_weights(std::span<const Matrix> parts, PackOrder order, const Stream& stream,
                           const std::function<void(int64_t)>& on_bytes) {
  check_parts(parts, order);
  PackedWeights packed;
  packed.matrix = {nullptr, DType::kBF16, 0, parts[0].cols};
  for (const Matrix& part : parts) packed.matrix.rows += part.rows;
  const auto bytes = static_cast<size_t>(packed_bytes(packed.matrix.rows, parts[0].cols, order));
  packed.buffer = DeviceBuffer(stream.device(), bytes);
  packed.matrix.data = packed.buffer.data();
  fill_bytes(packed.buffer.data(), 0, bytes, stream);

  Piece piece{.cols = parts[0].cols, .order = order};
  DeviceBuffer staging;
  for (const Matrix& part : parts) {
    const int64_t row_bytes = int64_t{part.cols} * static_cast<int64_t>(size_of(part.dtype));
    const int piece_rows =
        static_cast<int>(std::clamp<int64_t>(kPieceBytes / row_bytes, 1, std::max(part.rows, 1)));
    const auto need = static_cast<size_t>(piece_rows * row_bytes);
    if (staging.bytes() < need) {
      stream.synchronize();  // the last part may still be read
      staging = DeviceBuffer(stream.device(), need);
    }
    piece.raw = staging.data();
    piece.dtype = part.dtype;
    for (piece.first_row = 0; piece.first_row < part.rows; piece.first_row += piece_rows) {
      piece.num_rows = std::min(piece_rows, part.rows - piece.first_row);
      const int64_t piece_bytes = piece.num_rows * row_bytes;
      copy_to_device(staging.data(),
                     static_cast<const char*>(part.data) + piece.first_row * row_bytes,
                     static_cast<size_t>(piece_bytes), stream);
      const int64_t elements = int64_t{piece.num_rows} * piece.cols;
      const auto ctas = static_cast<unsigned>((elements + kThreadsPerCta - 1) / kThreadsPerCta);
      launch_dependent(pack_kernel, {dim3(ctas), dim3(kThreadsPerCta), 0, "launching pack_weights"},
                       stream, piece, packed.buffer.as<__nv_bfloat16>());
      if (on_bytes) on_bytes(piece_bytes);
    }
    ++piece.part;
    piece.rows_before += part.rows;
  }
  stream.synchronize();  // staging is about to be freed
  return packed;
}

}  // namespace kv
