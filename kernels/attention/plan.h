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

/// Limits of run_queries.cuh: most pairs of a sequence and KV head, and the KV heads of a CTA, a
/// warp for each: 8 or 4 (in FP8 also 2), or 0 if it does not serve this number of them.
inline constexpr int kRunPairs = 8;
constexpr int run_heads(int num_kv_heads) {
  return num_kv_heads % 8 == 0 ? 8 : num_kv_heads % 4 == 0 ? 4 : 0;
}
/// CTAs of it on an SM.
constexpr int run_ctas(int heads) { return heads == 8 ? 1 : heads == 4 ? 2 : 3; }
/// The last warp of a sequence merges its groups, unless there are many more of them than in a run,
/// which has `length`. Then a launch of its own merges.
constexpr bool merges_runs_apart(int max_groups, int64_t length) { return max_groups > 8 * length; }

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
  int blocks_per_seq;      // blocks of pairs of the sequence with the most queries
  int max_groups;          // groups of keys that the queries of a sequence see, at most
  int64_t num_blocks;      // blocks of pairs, over all sequences and KV heads
  int groups_per_run;      // groups that a CTA of kStream takes one after the other
  bool in_clusters;        // kSpread on sm_90: the groups of a block of pairs form a cluster
  size_t workspace_bytes;  // counters, then partial results; 0 if no query sees two groups. The
                           // same on every GPU, and never more with a window than without

  /// `on_hopper`: whether the kernels for sm_90a can run.
  explicit Plan(const Queries& queries, bool on_hopper);
};

/// The path over blocks of this size: kRuns copies 16 tokens at a time, and leaves smaller blocks
/// to kStream.
constexpr Plan::Path path_in_blocks(Plan::Path path, int block_size) {
  return path == Plan::Path::kRuns && block_size < 16 ? Plan::Path::kStream : path;
}
/// The path of a pass of many queries: kMany or kWarpgroups.
Plan::Path path_of_many(const Queries& queries, bool on_hopper);
/// "spread", "stream", "runs", "many" or "warpgroups".
const char* name_of(Plan::Path path);

}  // namespace kv::attention
