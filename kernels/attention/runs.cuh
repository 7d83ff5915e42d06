#pragma once

// Runs: how run_queries.cuh shares the groups of keys of a pass among the SMs. All groups, sequence
// by sequence, are cut into runs of equal length.

#include "kernels/attention/fragments.cuh"

namespace kv::attention {

__device__ inline int groups_of_seq(const Queries& queries, int seq) {
  const Pairs pairs = pairs_of(queries, seq, 0);
  return pairs.num_rows > 0 ? (pairs.seq_len + kGroupTokens - 1) / kGroupTokens : 0;
}

/// A run: groups begin .. end - 1 of the pass. `seq` is the sequence of the first one, and
/// `seq_begin` the number of its own first group.
struct Run {
  int length;  // of every run but the last
  int begin, end;
  int seq, seq_begin;

  /// By a warp together.
  __device__ explicit Run(const Queries& queries) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    int all = 0;
    for (int s = lane; s < queries.num_seqs; s += 32) all += groups_of_seq(queries, s);
    all = __reduce_add_sync(kFullWarp, all);
    length = max(1, (all + static_cast<int>(gridDim.x) - 1) / static_cast<int>(gridDim.x));
    begin = static_cast<int>(blockIdx.x) * length;
    end = min(begin + length, all);
    seq = seq_begin = 0;
    if (begin >= end) {
      end = 0;  // nothing is left for this CTA
      return;
    }
    for (;; seq += 32) {
      const int mine = seq + lane < queries.num_seqs ? groups_of_seq(queries, seq + lane) : 0;
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

/// The groups of one sequence that lie in a run.
struct Piece {
  Pairs pairs;  // of KV head 0
  int seq;
  int num_groups;    // of the whole sequence
  int begin, end;    // groups of the sequence
  int num_pieces;    // that the sequence has
  int first_groups;  // groups of its first piece

  __device__ Piece(const Queries& queries, const Run& run, int sequence, int seq_begin)
      : pairs(pairs_of(queries, sequence, 0)), seq(sequence) {
    num_groups = groups_of_seq(queries, seq);
    begin = max(run.begin - seq_begin, 0);
    end = min(run.end - seq_begin, num_groups);
    const int first_run = seq_begin / run.length;
    first_groups = min((first_run + 1) * run.length - seq_begin, num_groups);
    num_pieces = (seq_begin + max(num_groups, 1) - 1) / run.length - first_run + 1;
  }
};

/// Calls f(piece) for each of the run's pieces.
template <class F>
__device__ inline void for_each_piece(const Queries& queries, const Run& run, const F& f) {
  int seq_begin = run.seq_begin;
  for (int seq = run.seq; seq_begin < run.end; ++seq) {
    const Piece piece(queries, run, seq, seq_begin);
    if (piece.begin < piece.end) f(piece);
    seq_begin += piece.num_groups;
  }
}

}  // namespace kv::attention
