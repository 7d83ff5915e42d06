// out = epilogue( norm(x) * W^T ) on CUDA: chooses the kernel and divides the work.
//
// Floors, for a matrix of N x K and M rows: 2 N K bytes read once from device memory, 2 M N K
// operations. With few rows the bytes decide (Qwen3-0.6B: 1.19 GB a step), with many the rate of
// the tensor cores. `./course bench-cuda` measures both. kernels/road/ leads here in eight measured
// steps (./course bench-cuda --road).

#include <algorithm>
#include <stdexcept>

#include "kernels/hopper/multiply.cuh"
#include "kernels/launch.cuh"
#include "kernels/matmul.h"
#include "kernels/matmul_few_rows.cuh"
#include "kernels/matmul_many_rows.cuh"
#include "kernels/rmsnorm.h"

namespace kv {
namespace {

constexpr int kMaxFewRows = 64;
/// Shared memory for weights in flight. It leaves room on an SM for CTAs of the next kernels, which
/// start loading their own weights.
constexpr int kMaxRingBytes = 160 * 1024;

int divide_up(int a, int b) { return (a + b - 1) / b; }

using cuda_backend::device_limit;
using cuda_backend::num_sms;

/// Most shared memory that one CTA may ask for.
int max_shared_bytes() {
  static const int bytes = device_limit(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  return bytes;
}

// --- rows that a kernel cannot read in pieces of 16 bytes ---

// Grid: one warp per row, 8 rows a CTA. Copies rows of k columns to rows of `stride` columns,
// normalised if norm_weight is set. Columns from k on become zero.
__global__ void align_rows_kernel(const void* x, const float* norm_weight, float eps, int num_rows,
                                  int k, int stride, __nv_bfloat16* out) {
  let_successors_start();
  wait_for_predecessors();
  const int row = static_cast<int>(blockIdx.x * 8 + threadIdx.x / 32);
  if (row >= num_rows) return;
  const int64_t from = static_cast<int64_t>(row) * k;
  const auto* floats = static_cast<const float*>(x) + from;
  const float scale = norm_weight != nullptr ? row_norm_scale(floats, k, eps) : 0.0f;
  for (int col = static_cast<int>(threadIdx.x) % 32; col < stride; col += 32) {
    __nv_bfloat16 value = __float2bfloat16_rn(0.0f);
    if (col < k) {
      value = norm_weight != nullptr ? normalised(floats[col], scale, norm_weight[col])
                                     : static_cast<const __nv_bfloat16*>(x)[from + col];
    }
    out[static_cast<int64_t>(row) * stride + col] = value;
  }
}

void need_scratch(const MatmulArgs& args) {
  if (args.scratch == nullptr) {
    throw std::logic_error("matmul_cuda: this product needs scratch (matmul_scratch_bytes)");
  }
}

/// Copies the rows into scratch with a number of columns that is a multiple of `unit`; normalises
/// them if the product has a norm.
void align_rows(const MatmulArgs& args, int unit, ProductArgs& product, const Stream& stream) {
  need_scratch(args);
  const int stride = divide_up(args.k, unit) * unit;
  const Launch launch{dim3(static_cast<unsigned>(divide_up(args.num_rows, 8))), dim3(256), 0,
                      "launching align_rows"};
  launch_dependent(align_rows_kernel, launch, stream, args.x, args.norm_weight, args.norm_eps,
                   args.num_rows, args.k, stride, static_cast<__nv_bfloat16*>(args.scratch));
  product.x = args.scratch;
  product.k = stride;
  product.norm_weight = nullptr;
}

/// Normalises the rows in a separate kernel, with the same bits as the fused prologue.
void normalise_rows(const MatmulArgs& args, ProductArgs& product, const Stream& stream) {
  need_scratch(args);
  rmsnorm_cuda({.x = static_cast<const float*>(args.x),
                .weight = args.norm_weight,
                .num_rows = args.num_rows,
                .k = args.k,
                .eps = args.norm_eps,
                .out = args.scratch},
               stream);
  product.x = args.scratch;
  product.norm_weight = nullptr;
}

// --- few rows ---

template <typename Shape>
void launch_few(const ProductArgs& product, FewRowsPlan plan, const Stream& stream) {
  const int tiles = tiles_per_strip(product.k);
  plan.strip_tiles = std::min(tiles, Shape::kSlabs * kSlabTiles);
  plan.num_groups = divide_up(tiles, Shape::kSlabs * kSlabTiles);
  const int batches = divide_up(plan.units_per_cta, Shape::kUnits) * plan.num_groups;
  plan.sum_buffers = batches > 1 ? 2 : 1;
  const int norm_bytes = Shape::kNorm ? plan.num_groups * Shape::kSlabs * kFewWarps * 8 * 4 : 0;
  const int other_bytes = kMaxRing * 8 + plan.sum_buffers * Shape::kSumBufferBytes + norm_bytes;
  const int batch_bytes = Shape::kUnits * Shape::kUnitStrips * plan.strip_tiles * kTileBytes;
  const int ring_bytes = std::min(kMaxRingBytes, max_shared_bytes() - other_bytes);
  plan.ring = std::min({batches, kMaxRing, ring_bytes / batch_bytes});
  const auto kernel = few_rows_kernel<Shape>;
  [[maybe_unused]] static const bool ready =
      ask_for_shared(kernel, static_cast<size_t>(max_shared_bytes()));
  const Launch launch{dim3(static_cast<unsigned>(divide_up(plan.num_units, plan.units_per_cta))),
                      dim3(kFewThreads), static_cast<size_t>(plan.ring * batch_bytes + other_bytes),
                      "launching matmul"};
  launch_dependent(kernel, launch, stream, product, plan);
}

/// Launches with the number of units and slabs in a batch that suits the product.
template <int kColTiles, bool kHalf, bool kNorm>
void batch_few(const ProductArgs& product, const FewRowsPlan& plan, const Stream& stream) {
  const auto run = [&]<bool kWhole, int kUnits, int kSlabs>() {
    using Shape = FewRowsShape<kColTiles, kHalf, kNorm, kWhole, kUnits, kSlabs>;
    launch_few<Shape>(product, plan, stream);
  };
  const int slabs = divide_up(tiles_per_strip(product.k), kSlabTiles);
  if constexpr (kColTiles <= 2) {
    // A CTA of two or three units takes them in one batch. With more it takes one at a time, so
    // that more batches are in flight.
    if (slabs == 1 && plan.units_per_cta == 2) return run.template operator()<true, 2, 1>();
    if (slabs == 1 && plan.units_per_cta == 3) return run.template operator()<true, 3, 1>();
    if (slabs % 3 == 0) return run.template operator()<false, 1, 3>();
    if (slabs % 2 == 0) return run.template operator()<false, 1, 2>();
  }
  if (slabs == 1) return run.template operator()<true, 1, 1>();
  run.template operator()<false, 1, 1>();
}

template <int kColTiles>
void few_rows(const ProductArgs& product, const Stream& stream) {
  // Units of 8 outputs if they divide the work among the SMs more evenly.
  const int sms = num_sms();
  const int pairs = product.num_strips / 2;
  const bool half = product.epilogue != Epilogue::kSiluMul && product.norm_weight == nullptr &&
                    divide_up(product.num_strips, sms) < 2 * divide_up(pairs, sms);
  FewRowsPlan plan;
  plan.num_units = half ? product.num_strips : pairs;
  plan.units_per_cta = divide_up(plan.num_units, sms);
  if constexpr (kColTiles == 1) {
    if (product.norm_weight != nullptr) return batch_few<1, false, true>(product, plan, stream);
  }
  if (half) return batch_few<kColTiles, true, false>(product, plan, stream);
  batch_few<kColTiles, false, false>(product, plan, stream);
}

// --- many rows ---

template <typename Shape, int kCtasPerSm>
void many_rows(const ProductArgs& product, const Stream& stream) {
  const auto kernel = many_rows_kernel<Shape>;
  const int stages = std::min(kMaxManyStages, max_shared_bytes() / Shape::kStageBytes);
  const int shared = stages * Shape::kStageBytes;
  [[maybe_unused]] static const bool ready = ask_for_shared(kernel, static_cast<size_t>(shared));
  const int tiles =
      divide_up(product.num_rows, Shape::kRows) * divide_up(product.num_strips, Shape::kStrips);
  const Launch launch{dim3(static_cast<unsigned>(std::min(tiles, kCtasPerSm * num_sms()))),
                      dim3(Shape::kThreads), static_cast<size_t>(shared), "launching matmul"};
  launch_dependent(kernel, launch, stream, product, tiles, stages);
}

ProductArgs product_of(const MatmulArgs& args) {
  if (args.weight.size() != 1 || args.weight[0].cols != args.k) {
    throw std::logic_error("matmul_cuda: needs one packed matrix with k columns");
  }
  const int rows = args.weight[0].rows;
  const bool pairs = args.epilogue == Epilogue::kSiluMul;
  ProductArgs product;
  product.weight = static_cast<const uint4*>(args.weight[0].data);
  product.x = args.x;
  product.norm_weight = args.norm_weight;
  product.norm_eps = args.norm_eps;
  product.out = args.out;
  product.out_stride = args.out_stride;
  product.num_rows = args.num_rows;
  product.k = args.k;
  product.num_outputs = pairs ? rows / 2 : rows;
  product.num_strips = pairs ? 2 * divide_up(rows / 2, kTileRows) : 2 * divide_up(rows, 16);
  product.epilogue = args.epilogue;
  return product;
}

void multiply(const MatmulArgs& args, const Stream& stream, bool may_use_hopper) {
  ProductArgs product = product_of(args);
  if (product.num_rows == 0 || product.num_outputs == 0) return;
  // Few rows are read in pieces of 16 bytes, many in whole chunks.
  const int unit = args.num_rows <= kMaxFewRows ? 8 : kChunkCols;
  if (args.k % unit != 0) {
    align_rows(args, unit, product, stream);
  } else if (args.norm_weight != nullptr && args.num_rows > 8) {
    normalise_rows(args, product, stream);
  }
  if (product.num_rows <= 8) return few_rows<1>(product, stream);
  if (product.num_rows <= 16) return few_rows<2>(product, stream);
  if (product.num_rows <= 32) return few_rows<4>(product, stream);
  // Until here only the time to read the weights counts, and few_rows() is as fast as any kernel.
  if (may_use_hopper && hopper::multiply(product, stream)) return;
  if (product.num_rows <= kMaxFewRows) return few_rows<8>(product, stream);
  // The largest tiles of which at least four fifths of the SMs get one.
  const auto tiles = [&](int size) {
    return divide_up(product.num_strips * kTileRows, size) * divide_up(product.num_rows, size);
  };
  if (tiles(128) * 5 >= num_sms() * 4) return many_rows<ManyRowsShape<4, 4, 2>, 1>(product, stream);
  if (tiles(64) * 5 >= num_sms() * 4) return many_rows<ManyRowsShape<2, 2, 2>, 2>(product, stream);
  many_rows<ManyRowsShape<1, 1, 2>, 4>(product, stream);
}

}  // namespace

void matmul_cuda(const MatmulArgs& args, const Stream& stream) { multiply(args, stream, true); }

void matmul_by_warps_cuda(const MatmulArgs& args, const Stream& stream) {
  multiply(args, stream, false);
}

}  // namespace kv
