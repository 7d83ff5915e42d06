#pragma once

// e4m3 by its definition, and checks of what both devices write: codes, scales, and that they give
// back what kernels/round_kv.h says. For any device.

#include "tests/support/readable.h"  // before the checks

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "e4m3.h"
#include "kernels/round_kv.h"
#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "tests/support/attention_runs.h"
#include "tests/support/kv_shape.h"
#include "write_kv_fp8.h"

namespace lesson14_test {

using kv::BFloat16;

using lesson14::Fp8Blocks;
using lesson14::Fp8KvCache;
using lesson14::kMaxExponent;
using lesson14::kMinExponent;

/// The number of a code, from its bits.
inline double number_of(uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  if ((code & 0x7F) == 0x7F) return NAN;
  const double x =
      exponent > 0 ? std::ldexp(1 + mantissa / 8.0, exponent - 7) : std::ldexp(mantissa / 8.0, -6);
  return (code & 0x80) != 0 ? -x : x;
}

/// The code nearest to x / 2^exponent; of two, the even one. It looks at every number.
inline uint8_t nearest_code(float x, int exponent) {
  const uint8_t sign = std::signbit(x) ? 0x80 : 0;
  const double scaled = std::ldexp(std::fabs(double{x}), -exponent);
  if (!(scaled < 448)) return sign | 0x7E;
  static const std::vector<double> numbers = [] {
    std::vector<double> all;
    for (int code = 0; code < 0x7F; ++code) all.push_back(number_of(static_cast<uint8_t>(code)));
    return all;
  }();
  const auto above = std::ranges::lower_bound(numbers, scaled) - numbers.begin();
  if (above == 0) return sign;
  const size_t at = above;
  const double up = numbers[at] - scaled, down = scaled - numbers[at - 1];
  const bool takes_upper = up < down || (up == down && above % 2 == 0);
  return static_cast<uint8_t>(sign | (takes_upper ? above : above - 1));
}

inline uint32_t float_bits(float x) { return lesson14::bits_of(x); }

/// The first difference between two lists of floats; "" if they have the same bits.
inline std::string first_difference(std::span<const float> found, std::span<const float> wanted) {
  REQUIRE(found.size() == wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (float_bits(found[i]) == float_bits(wanted[i])) continue;
    return fmt::format("element {}: found {}, wanted {}", i, found[i], wanted[i]);
  }
  return "";
}

/// The first scale that differs, and whose it is; "" if none does.
inline std::string first_difference(const std::vector<uint8_t>& found,
                                    const std::vector<uint8_t>& wanted, const Fp8Blocks& cache) {
  const int64_t at = std::ranges::mismatch(found, wanted).in1 - found.begin();
  if (at == std::ssize(found)) return "";
  const int64_t in_block = at % cache.scale_stride(), row = in_block / cache.block_size;
  return fmt::format("block {}, head {} of {}, offset {}: found the byte {}, wanted {}",
                     at / cache.scale_stride(), row / 2, row % 2 == 0 ? "K" : "V",
                     in_block % cache.block_size, found[at], wanted[at]);
}

inline std::vector<float> download_rows(const void* rows, size_t n, const kv::Stream& stream) {
  if (stream.device() == kv::Device::kCpu) return kvtest::download<float>(rows, n, stream);
  return kvtest::floats_of(kvtest::download<BFloat16>(rows, n, stream));
}

/// Sets every byte of the codes and scales.
inline void fill_pages(const Fp8KvCache& cache, int byte, const kv::Stream& stream) {
  for (const lesson05::Region& region : cache.regions().list()) {
    kv::fill_bytes(region.base, byte, int64_t{cache.num_blocks()} * region.bytes, stream);
  }
}

/// Heads of K and V after a round trip: the codes and bytes of scales that were written, decoded.
struct Written {
  std::vector<uint8_t> k, v, scales;  // scales: [block][head][K, V][slot]
};
inline Written read_cache(const Fp8Blocks& cache, const kv::Stream& stream) {
  const auto elements =
      static_cast<size_t>(cache.num_blocks * cache.block_size * cache.row_width());
  return {kvtest::download<uint8_t>(cache.k, elements, stream),
          kvtest::download<uint8_t>(cache.v, elements, stream),
          kvtest::download<uint8_t>(cache.scales, cache.num_blocks * cache.scale_stride(), stream)};
}

/// Writes rows to slots 0, 1, ... of an FP8 cache of one layer. `make_rows` is queued right before.
inline void write_in_order(
    const Fp8Blocks& cache, const kv::DeviceBuffer& k, const kv::DeviceBuffer& v, int num_rows,
    const kv::Stream& stream, const std::function<void()>& make_rows = [] {}) {
  std::vector<int64_t> slots(num_rows);
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int64_t>(i);
  const auto d_slots = kvtest::upload(slots, stream);
  make_rows();
  lesson14::write_kv_fp8({.k = k.data(),
                          .v = v.data(),
                          .slot_mapping = d_slots.as<const int64_t>(),
                          .num_rows = num_rows,
                          .cache = cache},
                         stream);
  stream.synchronize();
}

/// Heads of one exponent with every bf16 value that such a head can have, the largest included: of
/// 0x7FFF values of a sign, those up to 448 * 2^exponent. With the largest exponent also larger
/// ones, infinities and NaN. `head_dim` 128, 4 heads a row; the first element sets the exponent.
inline kvtest::Rows all_values(int exponent) {
  constexpr size_t kHeadDim = 128, kRow = 4 * kHeadDim;
  const float largest = std::ldexp(448.0f, exponent);
  kvtest::Rows rows;
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const BFloat16 x{static_cast<uint16_t>(bits)};
    if (std::fabs(kv::to_float(x)) > largest && exponent < kMaxExponent) continue;
    if (std::isnan(kv::to_float(x)) && exponent < kMaxExponent) continue;
    if (rows.size() % kHeadDim == 0) rows.push_back(kv::to_bfloat16(largest));
    rows.push_back(x);
  }
  while (rows.size() % kRow != 0) {
    rows.push_back(rows.size() % kHeadDim == 0 ? kv::to_bfloat16(largest) : BFloat16{0});
  }
  return rows;
}

/// Every bf16 value with every scale: codes and scales by the definition, and the decoded values
/// are the rounded rows. V has the rows of K in the other order of signs.
inline void check_all_values(const kv::Stream& stream, int step = 1) {
  constexpr int kHeads = 4, kHeadDim = 128, kBlockSize = 16;
  for (int exponent = kMinExponent; exponent <= kMaxExponent; exponent += step) {
    CAPTURE(exponent);
    const kvtest::Rows rows = all_values(exponent);
    kvtest::Rows negated = rows;
    for (BFloat16& x : negated) x.bits ^= 0x8000;
    const auto k = kvtest::upload_rows(rows, stream), v = kvtest::upload_rows(negated, stream);
    const auto num_rows = static_cast<int>(rows.size()) / (kHeads * kHeadDim);
    Fp8KvCache cache(kvtest::shape(1, kHeads, kHeadDim), stream,
                     (num_rows + kBlockSize - 1) / kBlockSize, kBlockSize);
    fill_pages(cache, 0xFF, stream);  // unwritten slots are read, too
    write_in_order(cache.layer(0), k, v, num_rows, stream);
    const Written found = read_cache(cache.layer(0), stream);
    const auto count_of = [&](uint8_t byte) { return std::ranges::count(found.scales, byte); };
    CHECK(count_of(lesson14::byte_of(exponent)) >= int64_t{2} * kHeads * num_rows);
    kv::round_kv({{k.data(), v.data()}, num_rows, kHeads, kHeadDim}, stream);
    const std::vector<float> rounded = download_rows(k.data(), rows.size(), stream);
    const std::vector<float> rounded_v = download_rows(v.data(), rows.size(), stream);
    size_t wrong_codes = 0, wrong_values = 0, wrong_in_v = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      const float x = kv::to_float(rows[i]);
      const float back = lesson14::decode(found.k[i], exponent);
      wrong_codes += found.k[i] != nearest_code(x, exponent);
      wrong_values += float_bits(back) != float_bits(rounded[i]);
      wrong_in_v += found.v[i] != (found.k[i] ^ 0x80) ||
                    float_bits(rounded_v[i]) != (float_bits(rounded[i]) ^ 0x80000000u);
    }
    CHECK(wrong_codes == 0);
    CHECK(wrong_values == 0);
    CHECK(wrong_in_v == 0);
  }
}

/// The rows are written after the kernel before has ended, whose rows they are.
inline void check_written_after(const kv::Stream& stream) {
  constexpr int kRows = 33, kHeads = 2, kHeadDim = 64;
  const auto rows = kvtest::random_bf16(kRows * kHeads * kHeadDim, 5, 3.0f);
  const auto k = kvtest::upload_rows(rows, stream), v = kvtest::upload_rows(rows, stream);
  Fp8KvCache cache(kvtest::shape(1, kHeads, kHeadDim), stream, 3, 16);
  fill_pages(cache, 0xFF, stream);  // unwritten slots are read, too
  write_in_order(cache.layer(0), k, v, kRows, stream, [&] {
    kv::round_kv({{k.data(), v.data()}, kRows, kHeads, kHeadDim}, stream);
  });
  const Written found = read_cache(cache.layer(0), stream);
  const std::vector<float> wanted = download_rows(k.data(), rows.size(), stream);
  size_t wrong = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t head = i / kHeadDim % kHeads, slot = i / (kHeadDim * kHeads);
    const size_t at = (slot / 16 * kHeads + head) * 2 * 16 + slot % 16;  // K's scale
    const float back = lesson14::decode(found.k[i], lesson14::exponent_of(found.scales[at]));
    wrong += float_bits(back) != float_bits(wanted[i]);
  }
  CHECK(wrong == 0);
}

/// Each head of each row gets the scale of its own largest magnitude, at its own place; rows
/// without a slot are left out, and no other byte changes. Random magnitudes, shapes and slots.
inline void check_heads_and_slots(const kv::Stream& stream) {
  struct Shape {
    int heads, head_dim, block_size;
  };
  for (const Shape shape :
       {Shape{1, 32, 1}, Shape{2, 80, 4}, Shape{17, 64, 8}, Shape{8, 128, 16}, Shape{1, 96, 64}}) {
    const int heads = shape.heads, head_dim = shape.head_dim, block_size = shape.block_size;
    CAPTURE(head_dim);
    CAPTURE(block_size);
    constexpr int kBlocks = 5, kRows = 9;
    const size_t width = heads * head_dim;
    kvtest::Rows k = kvtest::random_bf16(kRows * static_cast<int64_t>(width), 1), v = k;
    for (size_t i = 0; i < k.size(); ++i) {
      const auto head = static_cast<int>(i / static_cast<size_t>(head_dim));
      const float factor = 1 + static_cast<float>(head * 37 % 64) / 64;  // mantissas of all sizes
      k[i] = kv::to_bfloat16(std::ldexp(factor * kv::to_float(k[i]), head * 7 % 40 - 34));
      v[i] = kv::to_bfloat16(std::ldexp(factor * kv::to_float(v[i]), 10 - head * 11 % 50));
    }
    std::vector<int64_t> slots;
    for (int row = 0; row < kRows; ++row) {
      const int64_t slot = row * 7 % (kBlocks * block_size);
      const bool taken = std::ranges::count(slots, slot) > 0;
      slots.push_back(row % 4 == 1 || taken ? lesson03::kNoSlot : slot);
    }
#ifdef NDEBUG  // a debug build rejects a slot outside the cache
    slots[1] = int64_t{kBlocks} * block_size;
    slots[5] = (int64_t{1} << 32) + 2;
#endif
    Fp8KvCache cache(kvtest::shape(2, heads, head_dim), stream, kBlocks, block_size);
    fill_pages(cache, 0xA5, stream);
    const auto d_k = kvtest::upload_rows(k, stream), d_v = kvtest::upload_rows(v, stream);
    const auto d_slots = kvtest::upload(slots, stream);
    const Fp8Blocks layer = cache.layer(0);
    lesson14::write_kv_fp8({.k = d_k.data(),
                            .v = d_v.data(),
                            .slot_mapping = d_slots.as<const int64_t>(),
                            .num_rows = kRows,
                            .cache = layer},
                           stream);
    Written wanted = read_cache(cache.layer(1), stream);  // no byte of layer 1 has changed
    CHECK(std::ranges::count(wanted.k, 0xA5) == std::ssize(wanted.k));
    CHECK(std::ranges::count(wanted.scales, 0xA5) == std::ssize(wanted.scales));
    for (size_t row = 0; row < kRows; ++row) {
      if (!layer.has_slot(slots[row])) continue;
      const size_t slot = slots[row];
      const size_t size = static_cast<size_t>(block_size), block = slot / size, at = slot % size;
      for (size_t head = 0; head < static_cast<size_t>(heads); ++head) {
        for (const bool is_k : {true, false}) {
          const size_t dim = head_dim;
          const std::vector<float> x =
              kvtest::floats_of(std::span(is_k ? k : v).subspan(row * width + head * dim, dim));
          float largest = 0;
          for (const float value : x) largest = std::max(largest, std::fabs(value));
          const auto exponent = static_cast<int>(std::ceil(std::log2(double{largest} / 448)));
          auto& codes = is_k ? wanted.k : wanted.v;
          for (size_t d = 0; d < dim; ++d) {
            codes[slot * width + head * dim + d] = nearest_code(x[d], exponent);
          }
          wanted.scales[block * static_cast<size_t>(layer.scale_stride()) +
                        (2 * head + (is_k ? 0 : 1)) * size + at] =
              static_cast<uint8_t>(exponent + 127);
        }
      }
    }
    const Written found = read_cache(layer, stream);
    CHECK(first_difference(found.scales, wanted.scales, layer) == "");
    CHECK(found.k == wanted.k);
    CHECK(found.v == wanted.v);
  }
}

/// The largest element of a head counts wherever it is, here alone among NaN, which do not.
inline void check_largest_of_head(const kv::Stream& stream) {
  constexpr int kHeadDim = 80;
  kvtest::Rows rows(size_t{kHeadDim} * kHeadDim, BFloat16{0x7FC0});
  for (size_t i = 0; i < kHeadDim; ++i) {
    rows[i * kHeadDim + i] = kv::to_bfloat16(i % 2 == 0 ? 64 : -64);
  }
  Fp8KvCache cache(kvtest::shape(1, 1, kHeadDim), stream, 5, 16);
  const auto k = kvtest::upload_rows(rows, stream), v = kvtest::upload_rows(rows, stream);
  fill_pages(cache, 0xFF, stream);  // unwritten slots are read, too
  write_in_order(cache.layer(0), k, v, kHeadDim, stream);
  const Written found = read_cache(cache.layer(0), stream);
  CHECK(std::ranges::count(found.scales, lesson14::byte_of(-2)) == int64_t{2} * kHeadDim);
  for (size_t i = 0; i < kHeadDim; ++i) {
    CAPTURE(i);
    CHECK(found.k[i * kHeadDim + i] == nearest_code(i % 2 == 0 ? 64 : -64, -2));
  }
}

/// A head of zeros has scale 1, and a zero keeps its sign. The smallest scale is 2^-117 and the
/// largest 2^7, so that tiny heads become zeros; infinities and NaN become the largest number.
inline void check_extreme_heads(const kv::Stream& stream) {
  const auto bf16 = [](float x) { return kv::to_bfloat16(x); };
  constexpr int kHeadDim = 8;
  const std::vector<std::vector<BFloat16>> heads{
      {bf16(0), bf16(-0.0f)},
      {bf16(0x1p-126f), bf16(-0x1p-127f), bf16(0x1p-130f)},
      {bf16(INFINITY), bf16(-INFINITY), bf16(448), bf16(1)},
      {BFloat16{0x7FC0}, BFloat16{0xFFC0}, bf16(448), bf16(-1)},
      {bf16(0x1.cp-110f)},  // wants 2^-118, one less than there is
      {bf16(0x1.cp16f)}};   // wants 2^8
  kvtest::Rows rows;
  for (auto head : heads) {
    head.resize(kHeadDim, bf16(0));
    kvtest::append_to(rows, head);
  }
  Fp8KvCache cache(kvtest::shape(1, static_cast<int>(heads.size()), kHeadDim), stream, 1, 1);
  const auto k = kvtest::upload_rows(rows, stream), v = kvtest::upload_rows(rows, stream);
  fill_pages(cache, 0xFF, stream);  // unwritten slots are read, too
  write_in_order(cache.layer(0), k, v, 1, stream);
  const Written found = read_cache(cache.layer(0), stream);
  const auto codes = [&](size_t head) {
    const auto begin = found.k.begin() + static_cast<std::ptrdiff_t>(head * kHeadDim);
    return std::vector<int>(begin, begin + 4);
  };
  CHECK(codes(0) == std::vector<int>{0x00, 0x80, 0x00, 0x00});
  CHECK(codes(1) == std::vector<int>{0x01, 0x80, 0x00, 0x00});  // 2^-9, and half of that: even
  CHECK(codes(2) == std::vector<int>{0x7E, 0xFE, 0x46, 0x04});  // an infinity is the largest
  CHECK(codes(3) == std::vector<int>{0x7E, 0xFE, 0x7E, nearest_code(-1, 0)});
  const std::vector<int> scales{127, 127, 10, 10, 134, 134, 127, 127, 10, 10, 134, 134};
  CHECK(std::vector<int>(found.scales.begin(), found.scales.begin() + 12) == scales);
  CHECK(found.v == found.k);
}

}  // namespace lesson14_test
