#pragma once

// A computing warp of run_queries.cuh: all pairs of one KV head, over a run of groups. Its lanes
// hold pairs as in two_pairs.cuh.

#include "kernels/attention/plan.h"
#include "kernels/attention/spread/spread_queries.cuh"
#include "kernels/hopper/runs/fp8_tile.cuh"
#include "kernels/hopper/runs/run_shared.cuh"
#include "kernels/hopper/runs/runs.cuh"
#include "kernels/hopper/runs/two_pairs.cuh"
#include "kernels/hopper/warpgroup.cuh"
#include "kernels/launch.cuh"

namespace kv::hopper {

#if KV_WARPGROUPS

/// Arrives at a barrier in shared memory once x is known.
__device__ inline void arrive_after(uint64_t* barrier, uint32_t x) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.eq.u32 p, %1, 0xFFFFFFFF;\n"
      "@p mbarrier.arrive.shared.b64 _, [%0];\n@!p mbarrier.arrive.shared.b64 _, [%0];\n}" ::"r"(
          shared_address(barrier)),
      "r"(x)
      : "memory");
}

/// atomicInc() that releases and acquires for the whole GPU: a thread that counts later sees all
/// stores that this thread has made or seen.
__device__ inline unsigned count_in_order(unsigned* counter, unsigned limit) {
  unsigned before;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(counter), "r"(limit)
               : "memory");
  return before;
}

/// A store whose line should stay in the L2 cache until it is read.
__device__ inline void store_to_stay(float* to, const float4& x, uint64_t policy) {
  asm volatile("st.global.L2::cache_hint.v4.f32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(to), "f"(x.x),
               "f"(x.y), "f"(x.z), "f"(x.w), "l"(policy)
               : "memory");
}

/// A computing warp: all pairs of one KV head. If !kWindow, the layer has no window.
template <int kHeadDim, class Slots, bool kWindow>
class RunOfHead {
 public:
  using Shared = RunShared<kHeadDim, Slots>;
  using State = TwoPairs<kHeadDim>;
  /// `head` is the KV head's number in the model, `in_slots` its number in the CTA's slots.
  __device__ RunOfHead(Shared& shared, const Queries& queries,
                       const RunWorkspace<kHeadDim>& workspace, int head, int in_slots)
      : shared_(shared),
        queries_(queries),
        workspace_(workspace),
        head_(head),
        in_slots_(in_slots) {}

  __device__ void attend(const Piece& piece);

 private:
  static constexpr int kElements = kHeadDim / 8;  // of each pair in a lane
  __device__ const unsigned char* wait_for_slot() {
    wait_for_phase(&shared_.full[ring_.slot], ring_.phase);
    return shared_.slots.of_head(ring_.slot, in_slots_);
  }
  /// Gives the slot back once x is known, which is computed from the data that was read. An arrival
  /// does not wait for earlier loads from shared memory: the compiler issues some of them shortly
  /// before it, and the next copy could overtake them. racecheck reports the other lanes here,
  /// because it does not see that lane 0 arrives for them. If every lane arrives it reports
  /// nothing.
  __device__ void release_slot(uint32_t x) {
    __syncwarp();
    if (lane_ == 0) arrive_after(&shared_.empty[ring_.slot], x);
    ring_.next();
  }
  /// Index of this head of a sequence in the workspace.
  __device__ int64_t place(int seq) const {
    return static_cast<int64_t>(seq) * queries_.num_kv_heads + head_;
  }
  __device__ void score(float (&s)[kQuarters][4]);
  __device__ void weigh(const uint32_t (&p)[kQuarters][2], int begin, int end, State& group);
  __device__ void join_result(const State& group, bool first);
  __device__ State result() const;
  __device__ void leave(const State& state, PartialGroup<kHeadDim>& partial, int begin,
                        int end) const;
  __device__ void store(const State& state, const Pairs& pairs) const;
  __device__ void merge_pieces(const Piece& piece, const Pairs& pairs,
                               const PartialGroup<kHeadDim>* partials) const;

  Shared& shared_;
  const Queries& queries_;
  const RunWorkspace<kHeadDim>& workspace_;
  const int head_, in_slots_;
  const int lane_ = static_cast<int>(threadIdx.x) % 32;
  const int quad_ = lane_ / 4, t_ = lane_ % 4;
  Ring<Shared::kSlots> ring_;
  float result_m_[2], result_l_[2];
  int num_keys_[2], first_key_[2];   // pair 2 t + c sees keys first_key_[c] .. num_keys_[c] - 1
  uint2 q_[kRowSteps<kHeadDim>];     // the query of pair quad
  uint32_t scales_of_v_[kQuarters];  // FP8: of the tile
};

/// For each key of the tile, pair and element e, 16 in a step: s[key][pair] += K[key][e] *
/// Q[pair][e], from zero.
template <int kHeadDim, class Slots, bool kWindow>
__device__ inline void RunOfHead<kHeadDim, Slots, kWindow>::score(float (&s)[kQuarters][4]) {
  if constexpr (Slots::kHasCodes) {
    const int first_piece = Slots::first_piece(in_slots_);
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
      const unsigned char* const rows = wait_for_slot();
      const KeyCodes<kHeadDim> codes(rows, first_piece,
                                     shared_.scales[ring_.slot].of_head[in_slots_]);
      release_slot(codes.loaded());
      scales_of_v_[i] = codes.scales_of_v;
      s[i][0] = s[i][1] = s[i][2] = s[i][3] = 0.0f;
#pragma unroll
      for (int step = 0; step < kRowSteps<kHeadDim>; ++step) codes.multiply(step, q_[step], s[i]);
    }
    return;
  } else {
#pragma unroll
    for (auto& quarter : s) {
      const unsigned char* row = wait_for_slot() + lane_ % 16 * kSwizzledRowBytes;
      quarter[0] = quarter[1] = quarter[2] = quarter[3] = 0.0f;
#pragma unroll
      for (int i = 0; i < kRowSteps<kHeadDim>; ++i) {
        uint32_t k[4];
        load_matrices(
            k, row + i / 4 * Slots::kPartBytes + ((2 * (i % 4) + lane_ / 16) ^ lane_ % 8) * 16);
        mma_step(quarter, k, q_[i].x, q_[i].y);
      }
      release_slot(__float_as_uint(quarter[0]));
    }
  }
}

/// For each key of the tile: acc[e][pair] += V[key][e] * P[key][pair]. Keys begin .. end - 1 of the
/// tile exist and are seen by a pair.
template <int kHeadDim, class Slots, bool kWindow>
__device__ inline void RunOfHead<kHeadDim, Slots, kWindow>::weigh(const uint32_t (&p)[kQuarters][2],
                                                                  int begin, int end,
                                                                  State& group) {
  if constexpr (Slots::kHasCodes) {
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
      const ValueCodes<kHeadDim> codes(wait_for_slot(), Slots::first_piece(in_slots_));
      release_slot(codes.loaded());
      weigh_quarter<kHeadDim>(codes, scales_of_v_[i], begin - kQuarterTokens * i,
                              end - kQuarterTokens * i, p[i], group);
    }
    return;
  } else {
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
      constexpr int kPieces = kElements / 8;
      const unsigned char* at = wait_for_slot() + quad_ * kPieces / 8 * Slots::kPartBytes;
      uint4 v[4][kPieces];  // keys 2 t, 2 t + 1, 2 t + 8, 2 t + 9
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        const int key = 2 * t_ + x % 2 + x / 2 * 8;
        // Other keys read as zero, because 0 * NaN is NaN.
        const int in_tile = kQuarterTokens * i + key;
        const bool there = in_tile >= begin && in_tile < end;
        const unsigned char* row = at + key * kSwizzledRowBytes;
#pragma unroll
        for (int j = 0; j < kPieces; ++j) {
          // Odd quads the other way round, so that no two of them use the same banks.
          const int piece = quad_ * kPieces % 8 + (j ^ quad_ % kPieces);
          const auto* from = reinterpret_cast<const uint4*>(row + (piece ^ key % 8) * 16);
          v[x][j] = there ? *from : uint4{};
        }
        if (kPieces == 2 && quad_ % 2 == 1) {
          const uint4 first = v[x][kPieces - 1];
          v[x][kPieces - 1] = v[x][0];
          v[x][0] = first;
        }
      }
#pragma unroll
      for (int j = 0; j < kPieces; ++j) {
        weigh_step(group.acc[4 * j], v[0][j].x, v[1][j].x, v[2][j].x, v[3][j].x, p[i]);
        weigh_step(group.acc[4 * j + 1], v[0][j].y, v[1][j].y, v[2][j].y, v[3][j].y, p[i]);
        weigh_step(group.acc[4 * j + 2], v[0][j].z, v[1][j].z, v[2][j].z, v[3][j].z, p[i]);
        weigh_step(group.acc[4 * j + 3], v[0][j].w, v[1][j].w, v[2][j].w, v[3][j].w, p[i]);
      }
      uint32_t used = 0;  // combines sums in which every load was used
#pragma unroll
      for (int j = 0; j < kPieces; ++j) used ^= __float_as_uint(group.acc[4 * j][0]);
      release_slot(used);
    }
  }
}

/// Merges a group into the result of the groups before it. The result is used once in four tiles,
/// so it lives in shared memory.
template <int kHeadDim, class Slots, bool kWindow>
__device__ inline void RunOfHead<kHeadDim, Slots, kWindow>::join_result(const State& group,
                                                                        bool first) {
  Merge merge[2];
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    merge[c] = Merge::of(first ? group.m[c] : result_m_[c], group.m[c]);
    result_m_[c] = merge[c].m;
    result_l_[c] = first ? group.l[c] : merge[c](result_l_[c], group.l[c]);
  }
#pragma unroll
  for (int i = 0; i < State::kSteps; ++i) {
    float4 acc = {group.acc[i][0], group.acc[i][1], group.acc[i][2], group.acc[i][3]};
    if (!first) {
      const float4 before = shared_.result[i][threadIdx.x];
      acc = {merge[0](before.x, acc.x), merge[1](before.y, acc.y), merge[0](before.z, acc.z),
             merge[1](before.w, acc.w)};
    }
    shared_.result[i][threadIdx.x] = acc;
  }
}
template <int kHeadDim, class Slots, bool kWindow>
__device__ inline TwoPairs<kHeadDim> RunOfHead<kHeadDim, Slots, kWindow>::result() const {
  State all{.m = {result_m_[0], result_m_[1]}, .l = {result_l_[0], result_l_[1]}};
#pragma unroll
  for (int i = 0; i < State::kSteps; ++i) {
    const float4 four = shared_.result[i][threadIdx.x];
    all.acc[i][0] = four.x;
    all.acc[i][1] = four.y;
    all.acc[i][2] = four.z;
    all.acc[i][3] = four.w;
  }
  return all;
}

/// Stores the lane's partial results of the keys begin .. end - 1, one group or several.
template <int kHeadDim, class Slots, bool kWindow>
__device__ inline void RunOfHead<kHeadDim, Slots, kWindow>::leave(const State& state,
                                                                  PartialGroup<kHeadDim>& partial,
                                                                  int begin, int end) const {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    if (num_keys_[c] <= begin || first_key_[c] >= end) continue;
    const int pair = 2 * t_ + c;
#pragma unroll
    for (int i = 0; i < State::kSteps; i += 2) {
      store_to_stay(
          &partial.acc[pair][kElements * quad_ + 2 * i],
          {state.acc[i][c], state.acc[i][2 + c], state.acc[i + 1][c], state.acc[i + 1][2 + c]},
          policy);
    }
    if (quad_ == 0) {
      partial.m[pair] = state.m[c];
      partial.l[pair] = state.l[c];
    }
  }
}

template <int kHeadDim, class Slots, bool kWindow>
__device__ inline void RunOfHead<kHeadDim, Slots, kWindow>::store(const State& state,
                                                                  const Pairs& pairs) const {
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    if (num_keys_[c] == 0) continue;
    const float inverse = 1.0f / state.l[c];
    auto* out =
        reinterpret_cast<uint32_t*>(out_row(queries_, pairs, 2 * t_ + c) + kElements * quad_);
#pragma unroll
    for (int i = 0; i < State::kSteps; ++i) {
      out[i] =
          pack_bf16(quotient(state.acc[i][c], inverse), quotient(state.acc[i][2 + c], inverse));
    }
  }
}

/// Counts this piece. The warp that comes last merges all partial results of the sequence: that of
/// the first piece, stored in the place of the piece's last group, and those of all later groups.
template <int kHeadDim, class Slots, bool kWindow>
__device__ inline void RunOfHead<kHeadDim, Slots, kWindow>::merge_pieces(
    const Piece& piece, const Pairs& pairs, const PartialGroup<kHeadDim>* partials) const {
  const auto last = static_cast<unsigned>(piece.num_pieces - 1);
  unsigned before = 0;
  __syncwarp();  // lane 0 sees all lanes' stores
  // Wraps to zero with the last piece, so the counter is ready for the next launch.
  if (lane_ == 0) before = count_in_order(&workspace_.counters[place(piece.seq)], last);
  before = __shfl_sync(kFullWarp, before, 0);
  __syncwarp();  // the stores that lane 0 sees are visible to all lanes
  if (before != last) return;
  const int element = 4 * lane_, skipped = piece.first_groups - 1;
  if (element >= kHeadDim) return;
  // Reads past the L1 cache, because other SMs wrote these.
  const auto read = [&](const PartialGroup<kHeadDim>& from, int pair) {
    return four_elements(__ldcg(&from.m[pair]), __ldcg(&from.l[pair]),
                         __ldcg(reinterpret_cast<const float4*>(&from.acc[pair][element])));
  };
  const int first_group = first_group_of(pairs);
  const auto groups_upto = [&](int pair) {
    return (pairs.num_keys(pair) + kGroupTokens - 1) / kGroupTokens - first_group;
  };
  const auto first_of = [&](int pair) {
    return max(skipped, pairs.first_key(pair) / kGroupTokens - first_group);
  };
  // Two pairs at a time, which halves the time spent waiting for memory.
  for (int pair = 0; pair < pairs.count(); pair += 2) {
    const int other = min(pair + 1, pairs.count() - 1);
    const int groups = groups_upto(pair), groups_of_other = groups_upto(other);
    FourElements a = read(partials[first_of(pair)], pair);
    FourElements b = read(partials[first_of(other)], other);
    int group = first_of(other) + 1;  // behind a window the other pair may begin a group later
    const PartialGroup<kHeadDim>* from = partials + group - 1;
    if (first_of(pair) + 1 < min(group, groups)) a.append(read(*from, pair));
#pragma unroll 8
    for (; group < groups; ++group) {
      ++from;  // an index would cost a multiplication for each load
      a.append(read(*from, pair));
      b.append(read(*from, other));
    }
    if (group < groups_of_other) b.append(read(from[1], other));
    store_four(a, out_row(queries_, pairs, pair) + element);
    store_four(b, out_row(queries_, pairs, other) + element);
  }
}

template <int kHeadDim, class Slots, bool kWindow>
__device__ inline void RunOfHead<kHeadDim, Slots, kWindow>::attend(const Piece& piece) {
  const Pairs pairs = pairs_of(queries_, piece.seq, head_, kWindow);
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    num_keys_[c] = pairs.num_keys(2 * t_ + c);
    first_key_[c] = pairs.first_key(2 * t_ + c);
  }
  const int all_see_from = pairs.first_key(pairs.count() - 1);
  // A pair that does not exist takes the last one's query and is not stored.
  const bf16* q = q_row(queries_, pairs, min(quad_, pairs.count() - 1));
#pragma unroll
  for (int i = 0; i < kRowSteps<kHeadDim>; ++i) {
    q_[i] = Slots::kHasCodes ? row_part(q, i, t_) : query_part(q, i, t_);
  }
  PartialGroup<kHeadDim>* const partials =
      workspace_.partials + place(piece.seq) * workspace_.max_groups;

  // The groups from the sequence's first one on join as they come.
  const bool keeps = piece.begin == 0 && (!workspace_.merges_apart || piece.num_groups == 1);
  State group;
  for (int g = piece.begin; g < piece.end; ++g) {
    const int group_begin = piece.token(g);
    const int group_end = min(group_begin + kGroupTokens, pairs.seq_len);
    group.begin();
    for (int tile_begin = max(group_begin, piece.keys_begin / kTileTokens * kTileTokens);
         tile_begin < group_end; tile_begin += kTileTokens) {
      const int before[2] = {first_key_[0] - tile_begin, first_key_[1] - tile_begin};
      const int visible[2] = {num_keys_[0] - tile_begin, num_keys_[1] - tile_begin};
      float s[kQuarters][4];
      uint32_t p[kQuarters][2];
      score(s);
      if (kWindow && tile_begin < all_see_from) hide_front(s, before);
      softmax_two_pairs<kHeadDim>(s, visible, group, p);
      weigh(p, kWindow ? piece.keys_begin - tile_begin : 0, pairs.seq_len - tile_begin, group);
    }
    group.end();
    if (keeps) {
      join_result(group, g == piece.begin);
    } else {
      leave(group, partials[g], group_begin, group_end);
    }
  }
  if (keeps && piece.num_pieces == 1) {
    store(result(), pairs);
  } else if (keeps) {
    leave(result(), partials[piece.end - 1], piece.keys_begin, piece.token(piece.end));
  }
  if (piece.num_pieces > 1 && !workspace_.merges_apart) merge_pieces(piece, pairs, partials);
}

#endif

}  // namespace kv::hopper
