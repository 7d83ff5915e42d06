// Plain C++ with the compiler's vectors: 16 lanes are four vectors of four floats. A browser runs
// this one, too. Where the hardware has no fused multiply-add, it is made of sums in double.

#include "kernels/matmul_isa.h"

namespace kv {
namespace {

using Floats = float __attribute__((vector_size(16)));
using Shorts = uint16_t __attribute__((vector_size(8)));
using Words4 = uint32_t __attribute__((vector_size(16)));
using Doubles = double __attribute__((vector_size(32)));
using Words = int64_t __attribute__((vector_size(32)));

struct Vec16 {
  Floats part[4];

  static Vec16 zero() { return {}; }
  static Vec16 load(const float* p) {
    Vec16 out;
    __builtin_memcpy(&out, p, sizeof out);
    return out;
  }
  static Vec16 load(const BFloat16* p) {
    Shorts bits[4];
    __builtin_memcpy(&bits, p, sizeof bits);
    Vec16 out;
    for (int i = 0; i < 4; ++i) {
      out.part[i] = (Floats)(__builtin_convertvector(bits[i], Words4) << 16);
    }
    return out;
  }
  static Vec16 load(const Half* p) {
    Vec16 out;
    for (int i = 0; i < 16; ++i) out.part[i / 4][i % 4] = to_float(p[i]);
    return out;
  }
  void store(float* p) const { __builtin_memcpy(p, this, sizeof *this); }
};

#ifdef __FP_FAST_FMAF

inline Vec16 fma(const Vec16& a, const Vec16& b, const Vec16& c) {
  Vec16 out;
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      out.part[i][j] = __builtin_fmaf(a.part[i][j], b.part[i][j], c.part[i][j]);
    }
  }
  return out;
}

#else

__attribute__((always_inline)) inline Vec16 fma(const Vec16& a, const Vec16& b, const Vec16& c) {
  Vec16 out;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    // In double the product is exact (24 + 24 bits), and the sum is rounded to odd: of the two
    // doubles around it, the one whose last bit is 1. That one is never halfway between two floats,
    // and on the same side of the middle as the sum: only the rounding to float is seen.
    const Doubles product =
        __builtin_convertvector(a.part[i], Doubles) * __builtin_convertvector(b.part[i], Doubles);
    const Doubles addend = __builtin_convertvector(c.part[i], Doubles);
    const Doubles sum = product + addend;
    const Doubles back = sum - product;
    const Doubles lost = (product - (sum - back)) + (addend - back);  // sum + lost is exact
    const Doubles side = lost * sum;  // < 0: rounded away from zero; NaN for an infinite sum
    const Words inexact = (Words)(side < 0) | (Words)(side > 0);
    const auto odd = (Doubles)(((Words)sum + (Words)(side < 0)) | (inexact & 1));
    out.part[i] = __builtin_convertvector(odd, Floats);
  }
  return out;
}

#endif

inline float sum(const Vec16& a) {
  const Floats s8[] = {a.part[0] + a.part[2], a.part[1] + a.part[3]};
  const Floats s4 = s8[0] + s8[1];
  return (s4[0] + s4[2]) + (s4[1] + s4[3]);
}

inline void sum4(const Vec16* a, float* out) {
  for (int i = 0; i < 4; ++i) out[i] = sum(a[i]);
}

constexpr int kTileRows = 2;
constexpr int kTileCols = 2;
constexpr int kOneRowCols = 2;

}  // namespace
}  // namespace kv

#include "kernels/matmul_dot_block.h"

const kv::MatmulIsa* kv::matmul_isa_portable() {
  static constexpr MatmulIsa isa = {"portable", dot_block, multiply_adds};
  return &isa;
}
