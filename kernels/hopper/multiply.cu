#include "kernels/hopper/multiply.cuh"

#ifdef KV_SM90A

#include <algorithm>

#include "kernels/hopper/matmul_warpgroups.cuh"
#include "kernels/launch.cuh"

namespace kv::hopper {
namespace {

using cuda_backend::num_sms;

int divide_up(int a, int b) { return (a + b - 1) / b; }

template <typename Shape>
void warpgroups(const ProductArgs& product, const Stream& stream) {
  const auto kernel = warpgroups_kernel<Shape>;
  [[maybe_unused]] static const bool ready = ask_for_shared(kernel, Shape::kSharedBytes);
  TileGrid grid;
  grid.row_tiles = divide_up(product.num_rows, Shape::kRows);
  grid.tile_rows = divide_up(product.num_rows, grid.row_tiles);
  grid.output_tiles = divide_up(product.num_strips, Shape::kStrips);
  grid.num_tiles = grid.row_tiles * grid.output_tiles;
  const int ctas = Shape::kCtas * grid.num_tiles;
  const Launch launch{
      dim3(static_cast<unsigned>(Shape::kCtas > 1 ? ctas : std::min(ctas, num_sms()))),
      dim3(Shape::kThreads), static_cast<size_t>(Shape::kSharedBytes), "launching matmul",
      Shape::kCtas};
  launch_dependent(kernel, launch, stream, product, maps_of<Shape>(product, grid.tile_rows), grid);
}

/// Launches tiles of kOutputs columns, with 64 rows if the product has at most 64, else 128. With
/// 64 rows each warpgroup has half of the outputs. Half of 32 is two strips, and store_tile_silu()
/// needs four.
template <int kOutputs, int kCtas>
void warpgroups_of(const ProductArgs& product, const Stream& stream) {
  const bool pairs = product.epilogue == Epilogue::kSiluMul;
  if constexpr (kOutputs == 32 || kOutputs == 64 || kOutputs == 128) {
    if (product.num_rows <= 64 && (kOutputs > 32 || !pairs)) {
      return warpgroups<WarpgroupShape<kOutputs, 64, kCtas>>(product, stream);
    }
  }
  warpgroups<WarpgroupShape<kOutputs, 128, kCtas>>(product, stream);
}

/// Launches the tiles that are expected to be fastest.
void launch_tiles(const ProductArgs& product, const Stream& stream) {
  const auto tiles = [&](int outputs) {
    return divide_up(product.num_strips * kTileRows, outputs) * divide_up(product.num_rows, 128);
  };
  // Several CTAs share a tile if tiles are few and K is long: at least eight chunks for each CTA.
  const int shares = std::min(product.k / (kLaterChunks * kChunkCols), num_sms() / tiles(32));
  if (shares >= 3) return warpgroups_of<32, 3>(product, stream);
  if (shares == 2) return warpgroups_of<32, 2>(product, stream);
  // Otherwise the tile size with the lowest cost. A CTA's round costs its outputs and a constant.
  const auto cost = [&](int outputs) {
    return divide_up(tiles(outputs), num_sms()) * (outputs + 40);
  };
  const bool few = product.num_rows <= 64;
  int best = 128;
  for (const int outputs : {64, 32, 192, 96}) {
    const bool fits = !few || outputs <= 64;
    if (fits && cost(outputs) < cost(best)) best = outputs;
  }
  // Tiles of 64 x 64 read less than the same number of tiles of 32 outputs x 128 rows.
  const int squares =
      divide_up(product.num_strips * kTileRows, 64) * divide_up(product.num_rows, 64);
  if (best == 32 && !few && squares <= num_sms()) {
    return warpgroups<WarpgroupShape<64, 64>>(product, stream);
  }
  if (best == 32) return warpgroups_of<32, 1>(product, stream);
  if (best == 64) return warpgroups_of<64, 1>(product, stream);
  if (best == 96) return warpgroups_of<96, 1>(product, stream);
  if (best == 128) return warpgroups_of<128, 1>(product, stream);
  return warpgroups_of<192, 1>(product, stream);
}

}  // namespace

bool multiply(const ProductArgs& product, const Stream& stream) {
  if (!is_here() || product.k % kChunkCols != 0) return false;
  launch_tiles(product, stream);
  return true;
}

}  // namespace kv::hopper

#else

bool kv::hopper::multiply(const ProductArgs&, const Stream&) { return false; }

#endif
