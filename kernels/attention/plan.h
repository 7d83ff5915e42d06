#pragma once

// How the CUDA kernels of attention share the work of a pass. Plain arithmetic: the plan depends on
// sizes and the GPU alone, so a CUDA graph that was captured with it stays right while the lengths
// in device memory change, and no plan changes a bit of the result.

#include <cstddef>
#include <cstdint>

#include "kernels/attention/queries.h"

namespace kv::attention {

/// Most pairs (query, head) that share a tensor-core operand. They share one KV head.
inline constexpr int kPairsPerBlock = 16;
/// Blocks of pairs times groups from which on streaming is faster than spreading a group over 16
/// warps (on an H200, with 132 SMs).
inline constexpr int kEnoughGroups = 160;
/// Most groups of a block of pairs in one cluster of kSpread's CTAs, and most CTAs in a launch of
/// clusters. An SM holds one such CTA; with more than 48 of them the next kernel finds no room.
inline constexpr int kClusterGroups = 8;
inline constexpr int kMostClustered = 48;
/// Number of counters in the workspace: one for each block of pairs that its last CTA merges.
inline constexpr int kWorkspaceCounters = 1 << 14;
/// Tokens that a copy takes together where blocks allow it; a kernel may refuse smaller blocks.
inline constexpr int kCopiedTokens = 16;
/// SMs of an H200, on which the plans' numbers were measured.
inline constexpr int kMeasuredSms = 132;

struct Plan {
  /// The three families of kernels, a folder for each.
  enum class Path {
    kSpread,  // few queries, little K and V: a CTA for each group of keys
    kStream,  // few queries, much K and V: a warp streams a whole group
    kMany,    // many queries, a prefill: a CTA walks over all tiles
  };
  Path path;
  int pairs_per_block;     // pairs (query, head) that share K and V in a warp: 8 or 16
  int blocks_per_seq;      // blocks of pairs of the sequence with the most queries
  int max_groups;          // groups of keys that the queries of a sequence see, at most
  int64_t num_blocks;      // blocks of pairs, over all sequences and KV heads
  bool in_clusters;        // kSpread on sm_90: the groups of a block of pairs form a cluster
  size_t workspace_bytes;  // counters, then partial results; 0 if no query sees two groups. The
                           // same on every GPU, and never more with a window than without

  explicit Plan(const Queries& queries);
  /// The plan over codes in FP8, which no kernel streams. If there is much of them, a CTA for each
  /// sequence and KV head is faster than one for each group, as soon as they fill the GPU.
  static Plan of_codes(const Queries& queries, int block_size, int num_sms);
};

/// "spread", "stream" or "many".
const char* name_of(Plan::Path path);

}  // namespace kv::attention
