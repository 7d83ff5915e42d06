// Plain C++: the 16 lanes as an array. On x86-64 without FMA hardware this is slow, and right.

#include "kernels/matmul_isa.h"

namespace kv {
namespace {

struct Vec16 {
  float lane[16];

  static Vec16 zero() { return {}; }
  template <typename T>
  static Vec16 load(const T* p) {
    Vec16 out;
    for (int i = 0; i < 16; ++i) out.lane[i] = to_float(p[i]);
    return out;
  }
  void store(float* p) const {
    for (int i = 0; i < 16; ++i) p[i] = lane[i];
  }
};

inline Vec16 fma(const Vec16& a, const Vec16& b, const Vec16& c) {
  Vec16 out;
  for (int i = 0; i < 16; ++i) out.lane[i] = __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]);
  return out;
}

inline float sum(Vec16 a) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) a.lane[i] += a.lane[i + half];
  }
  return a.lane[0];
}

constexpr int kTileRows = 2;
constexpr int kTileCols = 2;
constexpr int kOneRowCols = 2;

}  // namespace
}  // namespace kv

#include "kernels/matmul_dot_block.h"

const kv::MatmulIsa* kv::matmul_isa_portable() {
  static constexpr MatmulIsa isa = {"portable", dot_block};
  return &isa;
}
