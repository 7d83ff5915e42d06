#pragma once

// Runs: how run_queries.cuh shares the keys of a pass among its CTAs. All tiles, sequence by
// sequence, are cut into runs of equal length. A group belongs to the run in which it begins. The
// last group of a sequence counts kGroupTiles tiles, even if it has fewer. If that made the runs at
// least one group longer, it counts only the tiles that it has. With a window a sequence begins
// with the group of the first key that a query sees.

#include "kernels/attention/fragments.cuh"

namespace kv::hopper {

using namespace attention;

/// The first group of which a query sees a key.
__device__ inline int first_group_of(const Pairs& pairs) {
  return pairs.first_key(0) / kGroupTokens;
}
__device__ inline int tiles_of_seq(const Queries& queries, int seq) {
  const Pairs pairs = pairs_of(queries, seq, 0, true);
  if (pairs.num_rows == 0) return 0;
  return (pairs.seq_len + kTileTokens - 1) / kTileTokens - first_group_of(pairs) * kGroupTiles;
}
__device__ inline int groups_of(int tiles) { return (tiles + kGroupTiles - 1) / kGroupTiles; }

/// A run: tiles begin .. end - 1 of the pass. `seq` is the sequence of tile `begin`, and
/// `seq_begin` the number of that sequence's first tile.
struct Run {
  int length;         // of every run but the last: a group or more
  bool whole_groups;  // the last group of a sequence counts kGroupTiles tiles
  int begin, end;
  int seq, seq_begin;

  __device__ int length_of_seq(const Queries& queries, int of) const {
    const int tiles = tiles_of_seq(queries, of);
    return whole_groups ? groups_of(tiles) * kGroupTiles : tiles;
  }

  /// Called by a whole warp.
  __device__ explicit Run(const Queries& queries) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    int tiles = 0, groups = 0;
    for (int s = lane; s < queries.num_seqs; s += 32) {
      const int here = tiles_of_seq(queries, s);
      tiles += here;
      groups += groups_of(here);
    }
    tiles = __reduce_add_sync(kFullWarp, tiles);
    groups = __reduce_add_sync(kFullWarp, groups);
    const int ctas = static_cast<int>(gridDim.x);
    const int by_groups = max(1, (groups + ctas - 1) / ctas) * kGroupTiles;
    const int by_tiles = max(kGroupTiles, (tiles + ctas - 1) / ctas);
    // A run that is cut by tiles still ends with the whole of its last group.
    whole_groups = by_groups < by_tiles + kGroupTiles;
    length = whole_groups ? by_groups : by_tiles;
    const int all = whole_groups ? groups * kGroupTiles : tiles;
    begin = static_cast<int>(blockIdx.x) * length;
    end = min(begin + length, all);
    seq = seq_begin = 0;
    if (begin >= end) {
      end = 0;  // nothing is left for this CTA
      return;
    }
    for (;; seq += 32) {
      const int mine = seq + lane < queries.num_seqs ? length_of_seq(queries, seq + lane) : 0;
      int upto = mine;
#pragma unroll
      for (int distance = 1; distance < 32; distance *= 2) {
        const int other = __shfl_up_sync(kFullWarp, upto, distance);
        if (lane >= distance) upto += other;
      }
      const unsigned after = __ballot_sync(kFullWarp, seq_begin + upto > begin);
      if (after != 0) {
        const int found = __ffs(static_cast<int>(after)) - 1;
        seq += found;
        seq_begin += __shfl_sync(kFullWarp, upto - mine, found);
        return;
      }
      seq_begin += __shfl_sync(kFullWarp, upto, 31);
    }
  }
};

/// The groups of one sequence that lie in a run. Groups are counted from the sequence's first one
/// of which a query sees a key.
struct Piece {
  int seq;
  int seq_len, num_groups;  // of the whole sequence
  int num_earlier;          // of its tokens were there before this pass
  int keys_begin;           // the first key that a query sees
  int begin, end;           // groups of the sequence
  int num_pieces;           // that the sequence has
  int first_groups;         // groups of its first piece

  __device__ Piece(const Queries& queries, const Run& run, int sequence, int seq_begin)
      : seq(sequence) {
    const Pairs pairs = pairs_of(queries, seq, 0, true);
    seq_len = pairs.seq_len;
    keys_begin = pairs.num_rows > 0 ? pairs.first_key(0) : 0;
    num_earlier = num_earlier_tokens(pairs);
    num_groups = groups_of(tiles_of_seq(queries, seq));
    begin = groups_of(max(run.begin - seq_begin, 0));
    end = min(groups_of(run.end - seq_begin), num_groups);
    const int first_run = seq_begin / run.length;
    first_groups = min(groups_of((first_run + 1) * run.length - seq_begin), num_groups);
    const int last_group = seq_begin + kGroupTiles * max(num_groups - 1, 0);
    num_pieces = last_group / run.length - first_run + 1;
  }
  /// The first token of a group.
  __device__ int token(int group) const {
    return (keys_begin / kGroupTokens + group) * kGroupTokens;
  }
};

/// Calls f(piece, first) for each of the run's pieces that has a group of `team`'s, `first`. A
/// run's groups are dealt out to the teams in turn.
template <int kTeams, class F>
__device__ inline void for_each_piece(const Queries& queries, const Run& run, int team,
                                      const F& f) {
  static_assert((kTeams & (kTeams - 1)) == 0);
  int seq_begin = run.seq_begin, groups = 0;  // of the run so far
  for (int seq = run.seq; seq_begin < run.end; ++seq) {
    const Piece piece(queries, run, seq, seq_begin);
    const int first = piece.begin + ((team - groups) & (kTeams - 1));
    if (first < piece.end) f(piece, first);
    groups += max(piece.end - piece.begin, 0);
    seq_begin += run.length_of_seq(queries, seq);
  }
}

}  // namespace kv::hopper
