#pragma once

// The rows of a tile, in fp32 or in FP8, for attend.cpp: into registers, and asked for ahead of
// time.

#include <bit>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "kernels/attention/attend.h"
#include "kernels/attention/lanes.h"

namespace kv::attention {

/// A row in FP8, and what its elements are widened by.
struct Fp8Row {
  const uint8_t* codes;
  float widening;
};
/// A register of elements: each code's sign and its other bits in the place of a float's, times
/// `widening`. Of the loop a compiler makes one load and two operations on wide registers.
template <class Floats>
ALWAYS_INLINE void widen(Floats& lanes, const uint8_t* codes, float widening) {
  int32_t bits[sizeof lanes / sizeof(float)];
  for (size_t i = 0; i < std::size(bits); ++i) {
    bits[i] = static_cast<int8_t>(codes[i]) << 20 & static_cast<int32_t>(0x87F00000);
  }
  std::memcpy(&lanes, bits, sizeof lanes);
  lanes *= widening;
}
ALWAYS_INLINE void load(Lanes& lanes, const Fp8Row& row, int i) {
  widen(lanes, row.codes + i, row.widening);
}
ALWAYS_INLINE void load(Halves& lanes, const Fp8Row& row, int i) {
  widen(lanes.low, row.codes + i, row.widening);
  widen(lanes.high, row.codes + i + kLanes / 2, row.widening);
}
template <class L>
ALWAYS_INLINE void load(L& lanes, const float* row, int i) {
  load(lanes, row + i);
}
ALWAYS_INLINE float element(const float* row, int i) { return row[i]; }
ALWAYS_INLINE float element(const Fp8Row& row, int i) {
  const uint32_t code = row.codes[i];
  return std::bit_cast<float>((code & 0x80) << 24 | (code & 0x7F) << 20) * row.widening;
}

ALWAYS_INLINE const float* k_row(const TileRows& rows, int t) { return rows.k[t]; }
ALWAYS_INLINE const float* v_row(const TileRows& rows, int t) { return rows.v[t]; }
ALWAYS_INLINE Fp8Row k_row(const Fp8TileRows& rows, int t) { return {rows.k[t], rows.widen_k[t]}; }
ALWAYS_INLINE Fp8Row v_row(const Fp8TileRows& rows, int t) { return {rows.v[t], rows.widen_v[t]}; }

/// The rows of a tile. If they lie apart, perhaps pages apart where the CPU cannot guess the next
/// one, they are asked for ahead of time: `scattered` says so, and `next` are those of the tile
/// that comes next.
template <class Rows>
struct Tile {
  const Rows& rows;
  int num_keys;
  bool scattered = false;
  const Rows* next = nullptr;
  int num_next = 0;
};

/// Rows to prefetch: 2 KiB of K in fp32, 1 KiB of K in FP8.
constexpr int ahead(const TileRows&) { return 4; }
constexpr int ahead(const Fp8TileRows&) { return 8; }
inline constexpr int kCacheLine = 64;
template <class Element>
ALWAYS_INLINE void prefetch_row(const Element* row, int head_dim) {
  constexpr int kStep = kCacheLine / sizeof(Element);
  for (int i = 0; i < head_dim; i += kStep) __builtin_prefetch(row + i);
}
/// While key t is read, asks for its row of V, and for the row of K some keys later.
template <class Rows>
ALWAYS_INLINE void prefetch(const Tile<Rows>& tile, int t, int head_dim) {
  const int later = t + ahead(tile.rows);
  if (later < tile.num_keys) {
    prefetch_row(tile.rows.k[later], head_dim);
  } else if (later - tile.num_keys < tile.num_next) {
    prefetch_row(tile.next->k[later - tile.num_keys], head_dim);
  }
  prefetch_row(tile.rows.v[t], head_dim);
}

}  // namespace kv::attention
