#pragma once

// A computing warp of run_queries.cuh: all pairs of one KV head, over a team's groups of a run. Its
// lanes hold pairs as in two_pairs.cuh.

#include "kernels/hopper/runs/fp8_tile.cuh"
#include "kernels/hopper/runs/run_shared.cuh"
#include "kernels/hopper/runs/runs.cuh"
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
__device__ inline void store_to_stay(float4* to, const float4& x, uint64_t policy) {
  asm volatile("st.global.L2::cache_hint.v4.f32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(to), "f"(x.x),
               "f"(x.y), "f"(x.z), "f"(x.w), "l"(policy)
               : "memory");
}

/// A computing warp: all pairs of one KV head. If !kWindow, the layer has no window.
template <int kHeadDim, class Slots, bool kWindow>
class RunOfHead {
 public:
  using Shared = RunShared<kHeadDim, Slots>;
  using Partial = RunPartial<kHeadDim, Slots::kHasCodes>;
  using Workspace = RunWorkspace<kHeadDim, Slots::kHasCodes>;
  static constexpr int kSteps = kRowSteps<kHeadDim>;
  using State = TwoPairs<kSteps>;
  /// `head` is the KV head's number in the model, `in_slots` its number in the team's slots.
  __device__ RunOfHead(Shared& shared, const Queries& queries, const Workspace& workspace, int team,
                       int head, int in_slots)
      : shared_(shared),
        queries_(queries),
        workspace_(workspace),
        team_(team),
        head_(head),
        in_slots_(in_slots) {}

  /// Computes every kTeams-th group of the piece, from group `first` on.
  __device__ void attend(const Piece& piece, int first) {
    const Pairs pairs = pairs_of(queries_, piece.seq, head_, kWindow);
    Partial* const partials = workspace_.partials + place(piece.seq) * workspace_.max_groups;
    attend_groups(piece, first, pairs, partials);
    const bool has_last = (piece.end - 1 - first) % Shared::kTeams == 0;
    if (has_last && piece.num_pieces > 1 && !workspace_.merges_apart) {
      merge_pieces(piece, pairs, partials);
    }
  }

 private:
  /// The next slot, once its copy is there: a function that returns the address of a piece of a row
  /// of this head.
  __device__ auto wait_for_slot() {
    wait_for_phase(&shared_.full[team_][ring_.slot], ring_.phase);
    return [this, slot = ring_.slot](int row, int piece) {
      return shared_.slots[team_].at(slot, in_slots_, row, piece);
    };
  }
  /// Gives the slot back once x is known, which is computed from the data that was read. An arrival
  /// does not wait for earlier loads from shared memory: the compiler issues some of them shortly
  /// before it, and the next copy could overtake them. racecheck reports the other lanes here,
  /// because it does not see that lane 0 arrives for them. If every lane arrives it reports
  /// nothing.
  __device__ void release_slot(uint32_t x) {
    __syncwarp();
    if (lane_ == 0) arrive_after(&shared_.empty[team_][ring_.slot], x);
    ring_.next();
  }
  /// Between the two the groups of a run come one after the other, whichever team has them.
  __device__ void wait_for_turn() {
    if (Shared::kTeams == 1) return;
    wait_for_phase(&shared_.turn[team_][in_slots_], (num_turns_ & 1) ^ (team_ == 0 ? 1 : 0));
    ++num_turns_;
  }
  __device__ void pass_turn() {
    if (Shared::kTeams == 1) return;
    __syncwarp();
    if (lane_ == 0) arrive(&shared_.turn[(team_ + 1) % Shared::kTeams][in_slots_]);
  }
  /// Index of this head of a sequence in the workspace.
  __device__ int64_t place(int seq) const {
    return static_cast<int64_t>(seq) * queries_.num_kv_heads + head_;
  }
  /// For each key of the tile, pair and element e, 16 in a step: s[key][pair] += K[key][e] *
  /// Q[pair][e], from zero.
  __device__ void score(float (&s)[kQuarters][4]) {
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
      const auto at = wait_for_slot();
      s[i][0] = s[i][1] = s[i][2] = s[i][3] = 0.0f;
      if constexpr (Slots::kHasCodes) {
        const KeyCodes<kHeadDim> codes(at, shared_.scales[team_][ring_.slot].of_head[in_slots_]);
        release_slot(codes.loaded());
        scales_of_v_[i] = codes.scales_of_v;
#pragma unroll
        for (int step = 0; step < kSteps; ++step) codes.multiply(step, q_[step], s[i]);
      } else {
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          uint32_t k[4];
          load_matrices(k, at(lane_ % 16, 2 * step + lane_ / 16));
          mma_step(s[i], k, q_[step].x, q_[step].y);
        }
        release_slot(__float_as_uint(s[i][0]));
      }
    }
  }
  /// For each key of the tile: acc[e][pair] += V[key][e] * P[key][pair]. Keys begin .. end - 1 of
  /// the tile exist and are seen by a pair.
  __device__ void weigh(const uint32_t (&p)[kQuarters][2], int begin, int end, State& group) {
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) {
      const int from = begin - kQuarterTokens * i, upto = end - kQuarterTokens * i;
      const auto at = wait_for_slot();
      if constexpr (Slots::kHasCodes) {
        const ValueCodes<kHeadDim> codes(at);
        release_slot(codes.loaded());
        weigh_codes<kHeadDim>(codes, scales_of_v_[i], from, upto, p[i], group);
      } else {
        uint32_t v[kSteps][4], loaded = 0;
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          load_transposed(v[step],
                          shared_address(at(lane_ % 8 + lane_ / 16 * 8, 2 * step + lane_ / 8 % 2)));
          loaded ^= v[step][0];  // the load's other words arrive with it
        }
        release_slot(loaded);
        if (from > 0 ||
            upto < kQuarterTokens) {  // other keys count as zero, because 0 * NaN is NaN
          const uint32_t low = mask_of_keys(2 * t_, from, upto);
          const uint32_t high = mask_of_keys(2 * t_ + 8, from, upto);
#pragma unroll
          for (auto& x : v) x[0] &= low, x[1] &= low, x[2] &= high, x[3] &= high;
        }
#pragma unroll
        for (int step = 0; step < kSteps; ++step)
          mma_step(group.acc[step], v[step], p[i][0], p[i][1]);
      }
    }
  }
  /// A group after the result of the piece's groups before it. The result is used once in four
  /// tiles, and by all teams, so it lives in shared memory.
  __device__ State after_result(const State& group) const {
    const auto& result = shared_.results[in_slots_].of[t_];
    State all;
    all.set_sums(result.sums);
#pragma unroll
    for (int i = 0; i < kSteps; ++i) all.set_four(i, result.acc[i][quad_]);
    all.append(group);
    return all;
  }
  __device__ void keep(const State& state) {
    __syncwarp();  // the result before has been read
    auto& result = shared_.results[in_slots_].of[t_];
    if (quad_ == 0) result.sums = state.sums();
#pragma unroll
    for (int i = 0; i < kSteps; ++i) result.acc[i][quad_] = state.four(i);
  }
  /// Leaves the state after some groups in global memory.
  __device__ void leave(const State& state, const Pairs& pairs, Partial& partial) const {
    if (2 * t_ >= pairs.count()) return;
    uint64_t policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    auto& couple = partial.of[t_];
    if (quad_ == 0) store_to_stay(&couple.sums, state.sums(), policy);
#pragma unroll
    for (int i = 0; i < kSteps; ++i) store_to_stay(&couple.acc[i][quad_], state.four(i), policy);
  }
  /// Stores the output of pairs 2 couple and 2 couple + 1: acc[i] is that of quad number `quad` and
  /// step first + i * stride.
  template <int kCount>
  __device__ void store(const TwoPairs<kCount>& state, const Pairs& pairs, int couple, int quad,
                        int first, int stride) const {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      if (2 * couple + c >= pairs.count()) return;
      bf16* const out = out_row(queries_, pairs, 2 * couple + c);
      const float inverse = 1.0f / state.l[c];
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const int step = first + i * stride;
        if (step >= kSteps) continue;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          out[element_of<Slots::kHasCodes>(step, half, quad)] =
              __float2bfloat16(quotient(state.acc[i][2 * half + c], inverse));
        }
      }
    }
  }
  /// Counts this piece, whose groups all teams have left. The warp that comes last merges all
  /// partial results of the sequence: that of the first piece, left in the place of the piece's
  /// last group, and those of all later groups.
  __device__ void merge_pieces(const Piece& piece, const Pairs& pairs,
                               const Partial* partials) const {
    const auto last = static_cast<unsigned>(piece.num_pieces - 1);
    unsigned before = 0;
    __syncwarp();  // lane 0 sees all lanes' stores
    // Wraps to zero with the last piece, so the counter is ready for the next launch.
    if (lane_ == 0) before = count_in_order(&workspace_.counters[place(piece.seq)], last);
    before = __shfl_sync(kFullWarp, before, 0);
    __syncwarp();  // the stores that lane 0 sees are visible to all lanes
    if (before != last) return;
    // Two pairs at a time, with the loads of a batch of groups on their way at once.
    constexpr int kBatch = 6, kCount = (kSteps + 3) / 4;
#pragma unroll 1
    for (int couple = 0; 2 * couple < pairs.count(); ++couple) {
      TwoPairs<kCount> all;
      all.begin();
#pragma unroll 1
      for (int first = piece.first_groups - 1; first < piece.num_groups; first += kBatch) {
        TwoPairs<kCount> groups[kBatch];
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          groups[i].begin();  // without a key, which appends nothing
          if (first + i >= piece.num_groups) continue;
          const auto& from = partials[first + i].of[couple];
          // Past the L1 cache, because other SMs wrote these.
          groups[i].set_sums(__ldcg(&from.sums));
#pragma unroll
          for (int x = 0; x < kCount; ++x) {
            const int step = min(lane_ / 8 + 4 * x, kSteps - 1);
            groups[i].set_four(x, __ldcg(&from.acc[step][lane_ % 8]));
          }
        }
#pragma unroll
        for (const auto& group : groups) all.append(group);
      }
      store(all, pairs, couple, lane_ % 8, lane_ / 8, 4);
    }
  }
  __device__ void attend_groups(const Piece& piece, int first, const Pairs& pairs,
                                Partial* partials) {
    int num_keys[2], first_key[2];  // pair 2 t + c sees keys first_key[c] .. num_keys[c] - 1
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      num_keys[c] = pairs.num_keys(2 * t_ + c);
      first_key[c] = pairs.first_key(2 * t_ + c);
    }
    const int all_see_from = pairs.first_key(pairs.count() - 1);
    // A pair that does not exist takes the last one's query and is not stored.
    const bf16* q = q_row(queries_, pairs, min(quad_, pairs.count() - 1));
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      q_[i] = Slots::kHasCodes ? row_part(q, i, t_) : query_part(q, i, t_);
    }

    // The groups from the sequence's first one on join as they come.
    const bool keeps = piece.begin == 0 && (!workspace_.merges_apart || piece.num_groups == 1);
    for (int g = first; g < piece.end; g += Shared::kTeams) {
      const int group_begin = piece.token(g);
      const int group_end = min(group_begin + kGroupTokens, pairs.seq_len);
      State group;
      group.begin();
      for (int tile_begin = max(group_begin, piece.keys_begin / kTileTokens * kTileTokens);
           tile_begin < group_end; tile_begin += kTileTokens) {
        const int before[2] = {first_key[0] - tile_begin, first_key[1] - tile_begin};
        const int visible[2] = {num_keys[0] - tile_begin, num_keys[1] - tile_begin};
        float s[kQuarters][4];
        uint32_t p[kQuarters][2];
        score(s);
        if (kWindow && tile_begin < all_see_from) hide_front(s, before);
        softmax_two_pairs<kHeadDim>(s, visible, group, p);
        weigh(p, kWindow ? piece.keys_begin - tile_begin : 0, pairs.seq_len - tile_begin, group);
      }
      group.end();

      const bool is_last = g + 1 == piece.end, is_whole = piece.num_pieces == 1;
      wait_for_turn();
      if (keeps && g > piece.begin) group = after_result(group);
      if (keeps && !is_last) keep(group);
      if (!keeps || (is_last && !is_whole)) leave(group, pairs, partials[g]);
      pass_turn();
      if (keeps && is_last && is_whole) store(group, pairs, t_, quad_, 0, 1);
    }
  }

  Shared& shared_;
  const Queries& queries_;
  const Workspace& workspace_;
  const int team_, head_, in_slots_;
  const int lane_ = static_cast<int>(threadIdx.x) % 32;
  const int quad_ = lane_ / 4, t_ = lane_ % 4;
  Ring<Shared::kSlots> ring_;
  int num_turns_ = 0;
  uint2 q_[kSteps];                  // the query of pair quad
  uint32_t scales_of_v_[kQuarters];  // FP8: of the tile
};

#endif

}  // namespace kv::hopper
