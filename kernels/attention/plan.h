#pragma once

// How the CUDA kernels of attention share the work of a pass. Plain arithmetic: the plan depends on
// sizes alone, so a CUDA graph that was captured with it stays right while the lengths in device
// memory change, and no plan changes a bit of the result.

#include <cstddef>
#include <cstdint>

#include "kernels/attention/queries.h"

namespace kv::attention {

/// Most pairs (query, head) that share a tensor-core operand. Only heads of one KV head can.
inline constexpr int kPairsPerBlock = 16;
/// Blocks of pairs times groups from which on streaming is faster than spreading a group over 16
/// warps (on an H200, with 132 SMs).
inline constexpr int kEnoughGroups = 160;
/// Most groups of a block of pairs that are one cluster of kSpread's CTAs; and most CTAs of a
/// launch of clusters: an SM holds one, and with more of them the next kernel finds no room for its
/// own.
inline constexpr int kClusterGroups = 8;
inline constexpr int kMostClustered = 48;
/// Counters of the workspace: as many blocks of pairs can be merged by whoever comes last.
inline constexpr int kWorkspaceCounters = 1 << 14;

/// Whether new_heads.cuh serves the pass: its grid has a place for each row of each sequence, as
/// many as the longest has, and at least half of them must be taken.
bool serves_new_heads(const Queries& queries);

/// What run_queries.cuh serves: KV heads, a warp for each, and pairs of a sequence and KV head.
inline constexpr int kRunHeads = 8;
inline constexpr int kRunPairs = 8;

struct Plan {
  enum class Path {
    kSpread,  // few queries, little K and V: a CTA for each group of keys (spread_queries.cuh)
    kStream,  // few queries, much K and V: a warp streams whole groups (stream_queries.cuh)
    kMany,    // many queries, a prefill: a CTA walks over all tiles (many_queries.cuh)
  };
  Path path;
  int pairs_per_block;     // pairs (query, head) that share K and V in a warp: 8 or 16
  int blocks_per_seq;      // of these, of the sequence with the most queries
  int max_groups;          // groups of keys that the queries of a sequence see, at most
  int64_t num_blocks;      // blocks of pairs, over all sequences and KV heads
  int groups_per_run;      // groups that a CTA of kStream takes one after the other
  bool in_runs;            // of kStream, on Hopper: a CTA for each SM (run_queries.cuh)
  bool merges_apart;       // of these: groups are merged by a launch of their own
  bool in_clusters;        // of kSpread, on sm_90: the groups of a block are a cluster
  size_t workspace_bytes;  // counters, then partial results; 0 if nobody sees two groups. A window
                           // needs no more than none

  explicit Plan(const Queries& queries);
};

}  // namespace kv::attention
