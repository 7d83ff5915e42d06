// Step 2: a CTA for each query head of each sequence, and the scores of its whole context in shared
// memory. vLLM's first paged kernel, v1, had this shape.
//
// The idea: the plain kernel's warp takes one key after the other, and waits for each. Here eight
// teams score eight keys at a time. The softmax is a second pass, over the scores. In a third pass
// the teams share the rows of V, and add up their sums.
//
// Must be read: K and V once, 2 x 256 bytes for each token and KV head. They are requested once for
// each query head of a KV head; the L2 cache answers where two CTAs are near in time.
//
// The limit: shared memory bounds the context, and one long sequence is 16 CTAs on a chip of 132
// SMs. The three passes wait for each other: while the softmax runs, nothing is being loaded.
//
//   thread   team threadIdx.x / 16, and in it lane threadIdx.x % 16: elements 8 lane .. 8 lane + 7
//   team     tokens team, team + 8, ...
//   scores   [len] floats; after the last barrier but one the teams' sums, [8][128]

#include <algorithm>
#include <string>

#include "road.cuh"

namespace lesson04::road {
namespace {

/// Grid: (num_heads, num_seqs).
__global__ void __launch_bounds__(kThreads) shared_scores_kernel(PagedAttentionArgs args) {
  extern __shared__ float scores[];
  const int head = static_cast<int>(blockIdx.x);
  const int seq = static_cast<int>(blockIdx.y);
  const int thread = static_cast<int>(threadIdx.x);
  const int team = thread / kTeamLanes;
  const int lane = thread % kTeamLanes;
  const int len = args.seq_len[seq];
  const Rows rows(args, seq, head / (args.num_heads / args.cache.num_kv_heads));
  const int64_t at = head_element(args, seq, head);

  float q[8];
  floats_of(load_piece(static_cast<const bf16*>(args.q) + at, lane), q);
  float m = -INFINITY;
  const auto key_row = [&](int token) { return rows.key(token); };
  for_each_row(len, key_row, [&](int token, const float(&k)[8]) {
    const float score = team_dot(q, k) * score_scale();
    if (lane == 0 && token < len) scores[token] = score;
    m = fmaxf(m, score);
  });
  m = cta_max(m);  // its barrier also makes all scores visible

  float l = 0.0f;
  for (int token = thread; token < len; token += kThreads) {
    const float p = __expf(scores[token] - m);
    scores[token] = p;
    l += p;
  }
  l = cta_sum(l);

  float acc[8] = {};
  const auto value_row = [&](int token) { return rows.value(token); };
  for_each_row(len, value_row, [&](int token, const float(&v)[8]) {
    const float p = token < len ? scores[token] : 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i) acc[i] = fmaf(p, v[i], acc[i]);
  });
  __syncthreads();  // all threads have read their scores
#pragma unroll
  for (int i = 0; i < 8; ++i) scores[team * kHeadDim + 8 * lane + i] = acc[i];
  __syncthreads();
  float out = 0.0f;  // for element `thread`
  for (int i = 0; i < kTeams; ++i) out += scores[i * kHeadDim + thread];
  static_cast<bf16*>(args.out)[at + thread] = __float2bfloat16(out / l);
}

}  // namespace

void shared_scores(const PagedAttentionArgs& args, const kv::Stream& stream) {
  check_decode(args);
  if (args.max_seq_len > kMaxSharedScores) {
    throw std::invalid_argument("scores in shared memory: " + std::to_string(args.max_seq_len) +
                                " tokens, wanted at most " + std::to_string(kMaxSharedScores));
  }
  const dim3 grid(static_cast<unsigned>(args.num_heads), static_cast<unsigned>(args.num_seqs));
  const auto floats = static_cast<size_t>(std::max(args.max_seq_len, kTeams * kHeadDim));
  kv::launch(shared_scores_kernel,
             {grid, dim3(kThreads), floats * sizeof(float), "launching shared_scores"}, stream,
             args);
}

}  // namespace lesson04::road
