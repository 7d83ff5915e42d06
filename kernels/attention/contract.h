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
// A key is visible to a query if its position is not after the query's. A tile without a visible
// key is skipped: it is never merged, so it leaves no trace, not even a signed zero. The tiles are
// *logical*: where a key lies in memory, in which block, and which thread reads it does not matter.

namespace kv::attention {

inline constexpr int kTileTokens = 64;
inline constexpr int kGroupTiles = 4;
inline constexpr int kGroupTokens = kTileTokens * kGroupTiles;
inline constexpr int kMaxHeadDim = 256;

}  // namespace kv::attention
