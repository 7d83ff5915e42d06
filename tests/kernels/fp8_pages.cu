#include "fp8_pages.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <random>

#include "kernels/attention/launch.cuh"

namespace kernels_test {
namespace {

using namespace kv::attention;
constexpr int kHeadDim = 128, kKvHeads = 8, kWidth = kHeadDim * kKvHeads;

struct RowInBlock {
  const int32_t* table;
  int shift;
  __device__ int operator()(int token) const {
    return (table[token >> shift] << shift) + (token & ((1 << shift) - 1));
  }
};
struct Blocks {
  const bf16* k;
  const bf16* v;
  const int32_t* tables;
  int width, shift;
  __device__ RowsBy<RowInBlock> rows(int seq, int kv_head) const {
    return {.k = k + kv_head * kHeadDim,
            .v = v + kv_head * kHeadDim,
            .stride = kWidth,
            .row_of = {tables + static_cast<int64_t>(seq) * width, shift}};
  }
};

__device__ uint32_t random_bits(uint32_t i, uint32_t seed) {
  uint32_t x = i * 2654435761u ^ seed;
  x = (x ^ x >> 15) * 2246822519u;
  x = (x ^ x >> 13) * 3266489917u;
  return x ^ x >> 16;
}
__device__ int64_t thread_index() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ int64_t num_threads() { return int64_t{gridDim.x} * blockDim.x; }

__global__ void fill_kernel(uint8_t* codes, int64_t num_codes, uint8_t* scales, int64_t num_scales,
                            Codes kind) {
  for (int64_t i = thread_index(); i < num_codes; i += num_threads()) {
    const uint32_t x = random_bits(static_cast<uint32_t>(i), 1);
    uint32_t code = x & 0xFF;
    if (kind != Codes::kOrdinary && (x >> 8 & 3) != 0) code &= 0x8F;
    if ((code & 0x7F) == 0x7F) code ^= 1;  // NaN is never written
    codes[i] = static_cast<uint8_t>(code);
  }
  for (int64_t i = thread_index(); i < num_scales; i += num_threads()) {
    const uint32_t x = random_bits(static_cast<uint32_t>(i), 2);
    const int wild = static_cast<int>(x % 24) - 22;
    const int extreme = (x & 8) != 0 ? 7 - static_cast<int>(x % 3) : static_cast<int>(x % 5) - 117;
    const int e = kind == Codes::kOrdinary ? -8 : kind == Codes::kWild ? wild : extreme;
    scales[i] = static_cast<uint8_t>(e + 127);
  }
}
__global__ void fill_queries_kernel(bf16* q, int64_t n, float size) {
  for (int64_t i = thread_index(); i < n; i += num_threads()) {
    const uint32_t x = random_bits(static_cast<uint32_t>(i), 3) & 0xFFFF;
    q[i] = __float2bfloat16((static_cast<float>(x) / 32768.0f - 1.0f) * size);
  }
}
/// K (is_v 0) or V (is_v 1), by the definition of the format.
__global__ void decode_kernel(const uint8_t* codes, const uint8_t* scales, bf16* to, int64_t n,
                              int block_size, int is_v) {
  for (int64_t i = thread_index(); i < n; i += num_threads()) {
    const int64_t row = i / kWidth, block = row / block_size;
    const int head = static_cast<int>(i / kHeadDim % kKvHeads);
    const int e =
        scales[(block * 2 * kKvHeads + 2 * head + is_v) * block_size + row % block_size] - 127;
    const int exponent = codes[i] >> 3 & 15, mantissa = codes[i] & 7;
    const float x = exponent != 0 ? ldexpf(static_cast<float>(8 + mantissa), exponent - 10)
                                  : ldexpf(static_cast<float>(mantissa), -9);
    to[i] = __float2bfloat16(ldexpf((codes[i] & 0x80) != 0 ? -x : x, e));
  }
}

}  // namespace

int64_t fp8_differences(const Fp8Case& of, int launches) {
  const kv::Stream stream(kv::Device::kCuda);
  const int size = of.block_size,
            longest = *std::max_element(of.seq_lens.begin(), of.seq_lens.end());
  const auto n = static_cast<int>(of.seq_lens.size());
  int num_blocks = 3;
  for (const int len : of.seq_lens) num_blocks += (len + size - 1) / size;
  const int width = (longest + size - 1) / size;
  std::vector<int32_t> ids(static_cast<size_t>(num_blocks)), first_row{0};
  std::iota(ids.begin(), ids.end(), 0);
  std::shuffle(ids.begin(), ids.end(), std::mt19937_64(1));
  std::vector<int32_t> tables(static_cast<size_t>(n * width), 1 << 30);  // never followed
  size_t used = 0;
  for (int i = 0; i < n; ++i) {
    const int blocks = (of.seq_lens[static_cast<size_t>(i)] + size - 1) / size;
    for (int b = 0; b < blocks; ++b) tables[static_cast<size_t>(i * width + b)] = ids[used++];
    first_row.push_back((i + 1) * of.rows);
  }
  const auto d_tables = kv::to_device<int32_t>(tables, stream);
  const auto d_first_row = kv::to_device<int32_t>(first_row, stream);
  const auto d_seq_len = kv::to_device<int32_t>(of.seq_lens, stream);
  const int64_t elements = int64_t{num_blocks} * size * kWidth;
  const int64_t num_scales = int64_t{num_blocks} * size * 2 * kKvHeads;
  const auto bytes = static_cast<size_t>(elements);
  const kv::DeviceBuffer codes(kv::Device::kCuda, 2 * bytes);
  const kv::DeviceBuffer scales(kv::Device::kCuda, static_cast<size_t>(num_scales));
  const kv::DeviceBuffer k(kv::Device::kCuda, 2 * bytes), v(kv::Device::kCuda, 2 * bytes);
  const int64_t outputs = int64_t{n} * of.rows * of.num_heads * kHeadDim;
  const auto out_bytes = static_cast<size_t>(2 * outputs);
  const kv::DeviceBuffer q(kv::Device::kCuda, out_bytes), out(kv::Device::kCuda, out_bytes);
  const dim3 grid(1056), block(256);
  const kv::Launch fill{.grid = grid, .block = block, .name = "filling"};
  auto* const v_codes = codes.as<uint8_t>() + elements;
  kv::launch(fill_kernel, fill, stream, codes.as<uint8_t>(), 2 * elements, scales.as<uint8_t>(),
             num_scales, of.codes);
  kv::launch(fill_queries_kernel, fill, stream, q.as<bf16>(), outputs,
             of.codes == Codes::kExtreme ? 1e-3f : 2.0f);
  kv::launch(decode_kernel, fill, stream, codes.as<const uint8_t>(), scales.as<const uint8_t>(),
             k.as<bf16>(), elements, size, 0);
  kv::launch(decode_kernel, fill, stream, v_codes, scales.as<const uint8_t>(), v.as<bf16>(),
             elements, size, 1);

  const Queries queries{.q = q.data(),
                        .out = out.data(),
                        .first_row = d_first_row.as<const int32_t>(),
                        .seq_len = d_seq_len.as<const int32_t>(),
                        .num_seqs = n,
                        .num_rows = n * of.rows,
                        .max_rows_per_seq = of.rows,
                        .max_seq_len = longest,
                        .num_heads = of.num_heads,
                        .num_kv_heads = kKvHeads,
                        .head_dim = kHeadDim};
  const Plan plan(queries);
  const kv::DeviceBuffer workspace(kv::Device::kCuda, std::max<size_t>(plan.workspace_bytes, 1));
  kv::fill_bytes(workspace.data(), 0, workspace.bytes(), stream);
  const int shift = std::countr_zero(static_cast<unsigned>(size));
  std::vector<uint16_t> wanted(static_cast<size_t>(outputs)), found(wanted);
  launch_stream<kHeadDim, 1>(
      queries, plan,
      Blocks{k.as<const bf16>(), v.as<const bf16>(), d_tables.as<const int32_t>(), width, shift},
      workspace.data(), stream);
  kv::copy_to_host(wanted.data(), out.data(), out_bytes, stream);
  int64_t differ = 0;
  for (int i = 0; i < launches; ++i) {
    kv::fill_bytes(out.data(), 0xFF, out_bytes, stream);
    const Fp8Blocks blocks{.k = codes.data(),
                           .v = v_codes,
                           .scales = scales.as<const uint8_t>(),
                           .block_tables = d_tables.as<const int32_t>(),
                           .max_blocks_per_seq = width,
                           .num_blocks = num_blocks,
                           .block_size = size,
                           .scale_stride = 2 * kKvHeads * size,
                           .num_kv_heads = kKvHeads,
                           .head_dim = kHeadDim};
    launch_attention(queries, blocks, workspace.data(), stream);
    kv::copy_to_host(found.data(), out.data(), out_bytes, stream);
    for (size_t j = 0; j < found.size(); ++j) differ += found[j] != wanted[j];
  }
  return differ;
}

}  // namespace kernels_test
