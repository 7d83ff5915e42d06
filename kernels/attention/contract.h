#pragma once

// The arithmetic contract of attention. Every lesson's kernel, on either device, follows it, and
// this is why they all give the same bits.
//
//   group   kGroupTiles tiles of kTileTokens keys of one sequence, counted from token 0. They add
//           up, one on top of the other, in
//             m   = a score near the largest so far
//             l   = sum of exp(score - m)
//             acc = sum of exp(score - m) * v
//           m begins as the largest score of the group's first tile with a visible key. It moves
//           only if a later tile has a score so far above it that exp(score - m) exceeds
//           kMaxWeight. Then it moves to that tile's largest score, and before the tile is added l
//           and acc are multiplied by exp(old m - new m).
//   result  the ordered merge of the groups, first to last; then acc / l.
//
// A key is visible to a query if its position is not after the query's and, in a layer with a
// window of W tokens, less than W before it. A group without a visible key is skipped: it is never
// merged, so it leaves no trace. The first one with a visible key is copied. A tile without a
// visible key changes nothing of its group. In other tiles hidden keys change nothing as long as
// their K and V are finite: a fast CUDA kernel multiplies them by 0, so a NaN would spread. Tiles
// and groups are *logical*: neither the place of a key in memory, nor its block, nor the thread
// that reads it matters.

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
