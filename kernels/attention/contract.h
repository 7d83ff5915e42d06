#pragma once

// The arithmetic contract of attention. Every lesson's kernel, on either device, follows it, and
// this is why they all give the same bits.
//
//   tile    kTileTokens keys of one sequence, counted from token 0. A tile gives, from scratch,
//             m   = max of the scores of its visible keys
//             l   = sum of exp(score - m)
//             acc = sum of exp(score - m) * v
//   group   kGroupTiles tiles, counted from token 0: their ordered merge, first tile to last.
//   result  the ordered merge of the groups, first to last; then acc / l.
//
// A key is visible to a query if its position is not after the query's and, in a layer with a
// window of W tokens, less than W before it. A tile or group without a visible key is skipped: it
// is never merged, so it leaves no trace, not even a signed zero. The first one with a visible key
// is copied. In such a tile, hidden keys change nothing as long as their K and V are finite: a fast
// CUDA kernel multiplies them by 0, so a NaN would spread. The tiles are *logical*: neither the
// place of a key in memory, nor its block, nor the thread that reads it matters.

#include "common/host_device.h"

namespace kv::attention {

inline constexpr int kTileTokens = 64;
inline constexpr int kGroupTiles = 4;
inline constexpr int kGroupTokens = kTileTokens * kGroupTiles;
inline constexpr int kMaxHeadDim = 256;

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
