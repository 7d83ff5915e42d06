#pragma once

// How the CUDA kernels of attention share the work of a pass. Plain arithmetic: the plan depends on
// sizes and the GPU alone, so a CUDA graph that was captured with it stays right while the lengths
// in device memory change, and no plan changes a bit of the result.

#include <cstddef>
#include <cstdint>

#include "kernels/attention/queries.h"

namespace kv::attention {

/// Most pairs (query, head) that share a tensor-core operand. Only heads of one KV head can.
inline constexpr int kPairsPerBlock = 16;
/// Blocks of pairs times groups from which on streaming is faster than spreading a group over 16
/// warps (on an H200, with 132 SMs).
inline constexpr int kEnoughGroups = 160;
/// Groups of a block of pairs that may be one cluster of kSpread's CTAs, and CTAs in a launch of
/// clusters, at most. An SM holds one such CTA: with more than 48 the next kernel finds no room.
inline constexpr int kClusterGroups = 8;
inline constexpr int kMostClustered = 48;
/// Counters of the workspace: one for each block of pairs that its last CTA merges.
inline constexpr int kWorkspaceCounters = 1 << 14;

/// Whether new_heads.cuh serves the pass. Its grid gives every sequence the rows of the longest
/// one, and at least half of these places must be taken.
bool serves_new_heads(const Queries& queries);

/// What run_queries.cuh serves: KV heads, a warp for each, and pairs of a sequence and KV head.
inline constexpr int kRunHeads = 8;
inline constexpr int kRunPairs = 8;

struct Plan {
  /// The five families of kernels, a folder for each. Two of them are for Hopper alone.
  enum class Path {
    kSpread,      // few queries, little K and V: a CTA for each group of keys
    kStream,      // few queries, much K and V: a warp streams whole groups
    kRuns,        // the work of kStream on Hopper: a CTA for each SM takes a run of groups
    kMany,        // many queries, a prefill: a CTA walks over all tiles
    kWarpgroups,  // the work of kMany on Hopper, by wgmma
  };
  Path path;
  int pairs_per_block;     // pairs (query, head) that share K and V in a warp: 8 or 16
  int blocks_per_seq;      // of these, of the sequence with the most queries
  int max_groups;          // groups of keys that the queries of a sequence see, at most
  int64_t num_blocks;      // blocks of pairs, over all sequences and KV heads
  int groups_per_run;      // groups that a CTA of kStream takes one after the other
  bool merges_apart;       // of kRuns: groups are merged by a launch of their own
  bool in_clusters;        // of kSpread, on sm_90: the groups of a block are a cluster
  size_t workspace_bytes;  // counters, then partial results; 0 if no query sees two groups. The
                           // same on every GPU; a window needs no more than none

  /// `on_hopper`: whether the kernels for sm_90a can run.
  explicit Plan(const Queries& queries, bool on_hopper);
};

/// kMany or kWarpgroups: which of them serves a pass of many queries.
Plan::Path path_of_many(const Queries& queries, bool on_hopper);
/// "spread", "stream", "runs", "many" or "warpgroups".
const char* name_of(Plan::Path path);

}  // namespace kv::attention
