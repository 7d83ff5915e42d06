// AVX2 with FMA and F16C: a Vec16 is two registers of 16.

#include "kernels/matmul_isa.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#include <immintrin.h>

namespace kv {
namespace {

struct Vec16 {
  __m256 lo;  // lanes 0 to 7
  __m256 hi;  // lanes 8 to 15

  static Vec16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Vec16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static Vec16 load(const BFloat16* p) { return {widen(p), widen(p + 8)}; }
  static Vec16 load(const Half* p) {
    return {_mm256_cvtph_ps(eight(p)), _mm256_cvtph_ps(eight(p + 8))};
  }
  void store(float* p) const {
    _mm256_storeu_ps(p, lo);
    _mm256_storeu_ps(p + 8, hi);
  }

 private:
  static __m128i eight(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
  static __m256 widen(const BFloat16* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(eight(p)), 16));
  }
};

inline Vec16 fma(Vec16 a, Vec16 b, Vec16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}

inline float sum(Vec16 a) {
  const __m256 s8 = _mm256_add_ps(a.lo, a.hi);
  const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

/// Four sums as sum() makes them. Pairs share the registers, which halves the instructions.
inline void sum4(const Vec16* a, float* out) {
  const auto halves = [](const Vec16& x, const Vec16& y) {  // 4 sums of x, then 4 of y
    const __m256 s8x = _mm256_add_ps(x.lo, x.hi);
    const __m256 s8y = _mm256_add_ps(y.lo, y.hi);
    return _mm256_add_ps(_mm256_permute2f128_ps(s8x, s8y, 0x20),
                         _mm256_permute2f128_ps(s8x, s8y, 0x31));
  };
  const __m256 s01 = halves(a[0], a[1]);
  const __m256 s23 = halves(a[2], a[3]);
  const __m256 s2 =  // two sums of each of a[0], a[2], a[1], a[3]
      _mm256_add_ps(_mm256_shuffle_ps(s01, s23, 0x44), _mm256_shuffle_ps(s01, s23, 0xEE));
  const __m256 s1 = _mm256_add_ps(s2, _mm256_permute_ps(s2, 0xB1));
  const __m256i order = _mm256_setr_epi32(0, 4, 2, 6, 0, 0, 0, 0);
  _mm_storeu_ps(out, _mm256_castps256_ps128(_mm256_permutevar8x32_ps(s1, order)));
}

// 6 accumulators of two registers each; x and w share the other four, w partly from memory.
// Measured against 3 x 2, 2 x 2 and 5 x 1: 58, 48, 50 and 45 GFLOP/s on one core that can do 80.
constexpr int kTileRows = 2;
constexpr int kTileCols = 3;
constexpr int kOneRowCols = 4;

}  // namespace
}  // namespace kv

#include "kernels/matmul_dot_block.h"

const kv::MatmulIsa* kv::matmul_isa_avx2() {
  static constexpr MatmulIsa isa = {"avx2", dot_block, multiply_adds};
  return &isa;
}

#else

const kv::MatmulIsa* kv::matmul_isa_avx2() { return nullptr; }

#endif
