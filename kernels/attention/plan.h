#pragma once

// Sizes by which the lessons' plans cut the work of the CUDA kernels.

namespace kv::attention {

/// Pairs (query, head) that share a tensor-core operand. Only heads of one KV head can.
inline constexpr int kPairsPerBlock = 16;
/// Up to here a pass has "few queries": its keys are spread over the chip.
inline constexpr int kMaxFewPairs = 4 * kPairsPerBlock;
/// Blocks of pairs whose groups can be counted. With more of them the chip is full anyway.
inline constexpr int kMaxCounters = 16384;

}  // namespace kv::attention
