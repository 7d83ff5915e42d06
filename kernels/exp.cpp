#include "kernels/exp.h"

#include <cstdint>
#include <cstring>

#include "kernels/every_cpu.h"

namespace kv {
namespace {

/// Vectors of 4 or 8 numbers. They are computed in double, so the doubles fill one register.
struct Four {
  using Floats = float __attribute__((vector_size(16)));
  using Doubles = double __attribute__((vector_size(32)));
  using Words = uint64_t __attribute__((vector_size(32)));
};
struct Eight {
  using Floats = float __attribute__((vector_size(32)));
  using Doubles = double __attribute__((vector_size(64)));
  using Words = uint64_t __attribute__((vector_size(64)));
};

/// e^x = 2^n * 2^r, where n is the integer nearest to x / ln 2, and r the rest, at most 1/2.
template <class Width>
ALWAYS_INLINE void exp_of_lanes(float* x, float minus) {
  using Floats = typename Width::Floats;
  using Doubles = typename Width::Doubles;
  using Words = typename Width::Words;
  constexpr double kLog2E = 1.4426950408889634;
  constexpr double kToInteger = 0x1.8p52;  // a sum with it has no place for a fraction
  // 2^r = 1 + c1 r + ... + c7 r^7, to 1.1e-10: the polynomial through (2^r - 1) / r at Chebyshev's
  // seven points.
  constexpr double c1 = 0.6931471805599453, c2 = 0.24022650922288757, c3 = 0.055504108839096185,
                   c4 = 0.009618056678524637, c5 = 0.001333350238616277, c6 = 0.0001546144469856913,
                   c7 = 1.5297323760701075e-05;
  constexpr float kLeast = -104.0f, kMost = 89.0f;  // beyond: 0, and infinity
  Floats lanes;
  std::memcpy(&lanes, x, sizeof lanes);
  lanes -= minus;
  lanes = lanes < kLeast ? Floats{} + kLeast : lanes;
  lanes = lanes > kMost ? Floats{} + kMost : lanes;
  const Doubles z = __builtin_convertvector(lanes, Doubles) * kLog2E;
  const Doubles integer = z + kToInteger;  // its last bits are n
  const Doubles r = z - (integer - kToInteger);
  const Doubles r2 = r * r;
  const Doubles low = (1.0 + c1 * r) + (c2 + c3 * r) * r2;
  const Doubles high = (c4 + c5 * r) + (c6 + c7 * r) * r2;
  const Doubles power = low + high * (r2 * r2);
  const auto scaled = (Doubles)((Words)power + ((Words)integer << 52));  // n joins the exponent
  lanes = __builtin_convertvector(scaled, Floats);
  std::memcpy(x, &lanes, sizeof lanes);
}

template <class Width>
ALWAYS_INLINE void exp_each_in(float* x, int n, float minus) {
  constexpr int kLanes = sizeof(typename Width::Floats) / sizeof(float);
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) exp_of_lanes<Width>(x + i, minus);
  if (i == n) return;
  float rest[kLanes];
  for (int j = 0; j < kLanes; ++j) rest[j] = i + j < n ? x[i + j] : 0.0f;
  exp_of_lanes<Width>(rest, minus);
  for (int j = 0; i + j < n; ++j) x[i + j] = rest[j];
}

FOR_CPU("default") void exp_each_here(float* x, int n, float minus) {
  exp_each_in<Four>(x, n, minus);
}
#ifdef SEVERAL_CPUS
FOR_CPU("avx2") void exp_each_here(float* x, int n, float minus) { exp_each_in<Four>(x, n, minus); }
FOR_CPU("avx512f") void exp_each_here(float* x, int n, float minus) {
  exp_each_in<Eight>(x, n, minus);
}
#endif

}  // namespace

void exp_each(float* x, int n, float minus) { exp_each_here(x, n, minus); }

}  // namespace kv
