// The codes of e4m3, and what the CPU writes into FP8 pages.

#include "codes.h"

using namespace lesson14_test;

namespace {

const kv::Stream& cpu() {
  static const kv::Stream stream(kv::Device::kCpu);
  return stream;
}

}  // namespace

TEST_CASE("decode gives the numbers of the format, exact in bf16 with every scale") {
  CHECK(number_of(0x7E) == 448);
  CHECK(number_of(0x08) == 0x1p-6);
  CHECK(number_of(0x01) == 0x1p-9);
  for (int code = 0; code <= 0xFF; ++code) {
    if ((code & 0x7F) == 0x7F) continue;  // NaN
    for (int exponent = kMinExponent; exponent <= kMaxExponent; ++exponent) {
      const float x = lesson14::decode(static_cast<uint8_t>(code), exponent);
      REQUIRE(double{x} == std::ldexp(number_of(static_cast<uint8_t>(code)), exponent));
      REQUIRE(float_bits(kv::to_float(kv::to_bfloat16(x))) == float_bits(x));
      REQUIRE(lesson14::encode(x, exponent) == code);
    }
  }
}

TEST_CASE("a scale is the smallest power of two with which a head fits") {
  CHECK(lesson14::scale_exponent(0) == 0);
  CHECK(lesson14::scale_exponent(std::nextafter(448.0f, 449.0f)) == 1);
  CHECK(lesson14::scale_exponent(1e-40f) == kMinExponent);
  for (uint32_t bits = 1; bits <= 0x7F80; ++bits) {  // every bf16 value over zero, and infinity
    const float largest = kv::to_float(kv::BFloat16{static_cast<uint16_t>(bits)});
    const double wanted = std::ceil(std::log2(double{largest} / 448));
    REQUIRE(lesson14::scale_exponent(largest) ==
            static_cast<int>(std::clamp<double>(wanted, kMinExponent, kMaxExponent)));
    REQUIRE(std::ldexp(1.0f, lesson14::scale_exponent(largest)) == kv::e4m3_scale(largest));
  }
}

TEST_CASE("the head of four numbers in the lesson's text") {
  const float head[] = {3.3f, -13, 450, 0.01f}, back[] = {3.25f, -13, 448, 0.01171875f};
  const uint8_t codes[] = {0x3D, 0xCD, 0x76, 0x03};
  for (int d = 0; d < 4; ++d) {
    CHECK(lesson14::encode(head[d], lesson14::scale_exponent(450)) == codes[d]);
    CHECK(lesson14::decode(codes[d], 1) == back[d]);
  }
  CHECK(lesson14::decode(lesson14::encode(back[3], lesson14::scale_exponent(4000)), 4) == 0);
}

TEST_CASE("fp32 values have the smallest scale, and the nearest codes, of two the even one") {
  for (const float largest : {448.0f, std::nextafter(448.0f, 449.0f)}) {
    for (const int exponent : {0, 3, -4, kMinExponent, kMaxExponent - 1}) {
      CAPTURE(largest);
      CAPTURE(exponent);
      std::vector<float> head{largest,    0.0f,           -0.0f,           1.0f,
                              -3.3f,      447.9f,         0x1.000002p-10f, 0x1.8p-9f,
                              0x1.1p-10f, 0x1.fffffep-7f, 17.0f,           0x1.100002p4f,
                              19.0f,      0x1.2ffffep4f,  0.34567f,        0x1p-10f};
      for (float& x : head) x = std::ldexp(x, exponent);
      const auto rows = kvtest::upload(head, cpu());
      const Fp8KvCache cache(kvtest::shape(1, 1, 16), cpu(), 1, 1);
      write_in_order(cache.layer(0), rows, rows, 1, cpu());
      const Written found = read_cache(cache.layer(0), cpu());
      const int scale = exponent + (largest > 448 ? 1 : 0);
      CHECK(found.scales[0] == lesson14::byte_of(scale));
      std::vector<uint8_t> wanted;
      for (const float x : head) wanted.push_back(nearest_code(x, scale));
      CHECK(found.k == wanted);
    }
  }
}

TEST_CASE("every bf16 value with every scale, written, decoded, and rounded" *
          doctest::test_suite("sweep")) {
  check_all_values(cpu());
}

TEST_CASE("each head of each row has the scale of its largest magnitude, at its own place") {
  check_heads_and_slots(cpu());
}

TEST_CASE("the largest element of a head counts wherever it is, and a NaN does not") {
  check_largest_of_head(cpu());
}

TEST_CASE("heads of zeros, tiny ones, infinities and NaN") { check_extreme_heads(cpu()); }

TEST_CASE("rows that were rounded are written as they are") { check_written_after(cpu()); }

TEST_CASE("rounding rounded rows changes nothing") {
  kvtest::Rows rows = kvtest::random_bf16(64 * 32, 3, 5.0f);
  for (size_t i = 0; i < rows.size(); i += 32) rows[i] = kv::to_bfloat16(227);  // becomes 224
  const auto k = kvtest::upload_rows(rows, cpu()), v = kvtest::upload_rows(rows, cpu());
  kv::round_kv({{k.data(), v.data()}, 32, 2, 32}, cpu());
  const auto once = download_rows(k.data(), rows.size(), cpu());
  CHECK(first_difference(once, kvtest::floats_of(rows)) != "");
  kv::round_kv({{k.data(), v.data()}, 32, 2, 32}, cpu());
  CHECK(first_difference(download_rows(k.data(), rows.size(), cpu()), once) == "");
}
