// AVX-512 (F, VL, BW, DQ): a Vec16 is one register, 32 of them.

#include "kernels/matmul_isa.h"

#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512BW__) && defined(__AVX512VL__)

#include <immintrin.h>

namespace kv {
namespace {

struct Vec16 {
  __m512 v;

  static Vec16 zero() { return {_mm512_setzero_ps()}; }
  static Vec16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Vec16 load(const BFloat16* p) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
  }
  static Vec16 load(const Half* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
};

inline Vec16 fma(Vec16 a, Vec16 b, Vec16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }

inline float sum(Vec16 a) {
  const __m256 s8 = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

/// Four sums as sum() makes them. Pairs share the registers, which halves the instructions.
inline void sum4(const Vec16* a, float* out) {
  const auto halves = [](__m512 x, __m512 y) {  // 8 sums of x, then 8 of y
    return _mm512_add_ps(_mm512_shuffle_f32x4(x, y, 0x44), _mm512_shuffle_f32x4(x, y, 0xEE));
  };
  const __m512 s01 = halves(a[0].v, a[1].v);
  const __m512 s23 = halves(a[2].v, a[3].v);
  const __m512 s4 =
      _mm512_add_ps(_mm512_shuffle_f32x4(s01, s23, 0x88), _mm512_shuffle_f32x4(s01, s23, 0xDD));
  const __m512 s2 = _mm512_add_ps(s4, _mm512_permute_ps(s4, 0x4E));
  const __m512 s1 = _mm512_add_ps(s2, _mm512_permute_ps(s2, 0xB1));
  _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, s1)));
}

// 24 accumulators, 6 pieces of w and one of x: 31 registers.
constexpr int kTileRows = 4;
constexpr int kTileCols = 6;
constexpr int kOneRowCols = 4;

}  // namespace
}  // namespace kv

#include "kernels/matmul_dot_block.h"

const kv::MatmulIsa* kv::matmul_isa_avx512() {
  static constexpr MatmulIsa isa = {"avx512", dot_block, multiply_adds};
  return &isa;
}

#else

const kv::MatmulIsa* kv::matmul_isa_avx512() { return nullptr; }

#endif
