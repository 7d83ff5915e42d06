#pragma once

// The arithmetic contract of attention. Every lesson's fast kernel follows it, on either device. So
// on one device they all give the same bits.
//
//   group   kGroupTiles tiles of kTileTokens keys of one sequence, counted from token 0. Its tiles
//           add up, one on top of the other, in
//             m   = a score near the largest so far
//             l   = sum of exp(score - m)
//             acc = sum of exp(score - m) * v
//           m begins as the largest score of the group's first tile with a visible key. If a later
//           tile has a score so far above m that exp(score - m) exceeds kMaxWeight, m moves to that
//           tile's largest score, and l and acc are multiplied by exp(old m - new m) before the
//           tile is added.
//   result  the groups merged in order, first to last; then acc / l.
//
// A key is visible to a query if its position is not after the query's and, in a layer with a
// window of W tokens, less than W before it. A tile without a visible key changes nothing of its
// group, and a group without a visible key changes nothing of the result: a kernel may skip it or
// merge its zeros. In other tiles a hidden key changes nothing as long as its V is finite: a CUDA
// kernel multiplies that V by 0, and 0 * NaN is NaN. Tiles and groups are *logical*: it does not
// matter where a key is in memory, in which block, or which thread reads it.

#include "common/host_device.h"

namespace kv::attention {

inline constexpr int kTileTokens = 64;
inline constexpr int kGroupTiles = 4;
inline constexpr int kGroupTokens = kTileTokens * kGroupTiles;
inline constexpr int kMaxHeadDim = 256;
/// The largest weight exp(score - m), and its logarithms.
inline constexpr float kMaxWeight = 256.0f, kLogMaxWeight = 5.54517744f, kLog2MaxWeight = 8.0f;

/// The first key that the query at this position sees. It sees at most `window` keys, its own
/// included; 0 means no limit.
KV_HOST_DEVICE constexpr int first_key(int position, int window) {
  return window > 0 && position >= window ? position - window + 1 : 0;
}

/// Whether two keys are in one group.
KV_HOST_DEVICE constexpr bool same_group(int key, int other) {
  return key / kGroupTokens == other / kGroupTokens;
}

}  // namespace kv::attention
