// Step 3: the keys of a sequence are cut into partitions, a CTA for each; a second, small kernel
// merges their partial results. vLLM's second paged kernel, v2, had this shape, split-KV.
//
// The idea: m, l and acc of a part of the keys can be merged with those of another (the README's
// online softmax). So one long sequence becomes enough CTAs to fill the chip, and the context is no
// longer bounded by shared memory.
//
// Must be read: K and V once, and 520 bytes are written and read again for each query head and
// partition: 0.8 % more at 256 tokens a partition if no heads share K and V.
//
// The limit: as in step 2, each query head loads all rows that it needs, in a CTA of its own, and a
// CTA's three passes wait for each other. Filling the chip has a price: where the keys are cut
// depends on the batch, and so do a request's bits.
//
//   thread   team threadIdx.x / 16, and in it lane threadIdx.x % 16: elements 8 lane .. 8 lane + 7
//   team     tokens begin + team, begin + team + 8, ...
//   shared   the partition's scores; after the last barrier but one the teams' sums, [8][128]

#include "road.cuh"

namespace lesson04::road {
namespace {

/// Grid: (num_heads, num_seqs, parts.count).
__global__ void __launch_bounds__(kThreads)
    partitions_kernel(PagedAttentionArgs args, Partitioning parts) {
  __shared__ float shared[kMaxPartition];
  static_assert(kMaxPartition >= kTeams * kHeadDim);
  const int head = static_cast<int>(blockIdx.x);
  const int seq = static_cast<int>(blockIdx.y);
  const int begin = static_cast<int>(blockIdx.z) * parts.tokens;
  const int len = min(args.seq_len[seq] - begin, parts.tokens);  // tokens of this partition
  if (len <= 0) return;
  const int thread = static_cast<int>(threadIdx.x);
  const int team = thread / kTeamLanes;
  const int lane = thread % kTeamLanes;
  const Rows rows(args, seq, head / (args.num_heads / args.cache.num_kv_heads));

  float q[8];
  floats_of(load_piece(static_cast<const bf16*>(args.q) + head_element(args, seq, head), lane), q);
  float m = -INFINITY;
  const auto key_row = [&](int token) { return rows.key(begin + token); };
  for_each_row(len, key_row, [&](int token, const float(&k)[8]) {
    const float score = team_dot(q, k) * score_scale();
    if (lane == 0 && token < len) shared[token] = score;
    m = fmaxf(m, score);
  });
  m = cta_max(m);  // its barrier also makes all scores visible

  float l = 0.0f;
  for (int token = thread; token < len; token += kThreads) {
    const float p = __expf(shared[token] - m);
    shared[token] = p;
    l += p;
  }
  l = cta_sum(l);

  float acc[8] = {};
  const auto value_row = [&](int token) { return rows.value(begin + token); };
  for_each_row(len, value_row, [&](int token, const float(&v)[8]) {
    const float p = token < len ? shared[token] : 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i) acc[i] = fmaf(p, v[i], acc[i]);
  });
  __syncthreads();  // all threads have read their scores
#pragma unroll
  for (int i = 0; i < 8; ++i) shared[team * kHeadDim + 8 * lane + i] = acc[i];
  __syncthreads();
  Partial& partial = parts.partial(args, seq, head, static_cast<int>(blockIdx.z));
  float sum = 0.0f;  // for element `thread`
  for (int i = 0; i < kTeams; ++i) sum += shared[i * kHeadDim + thread];
  partial.acc[thread] = sum;
  if (thread == 0) partial.m = m, partial.l = l;
}

/// Grid: (num_heads, num_seqs); a thread for each element.
__global__ void __launch_bounds__(kHeadDim)
    merge_partitions_kernel(PagedAttentionArgs args, Partitioning parts) {
  const int head = static_cast<int>(blockIdx.x);
  const int seq = static_cast<int>(blockIdx.y);
  const int thread = static_cast<int>(threadIdx.x);
  const int count = (args.seq_len[seq] + parts.tokens - 1) / parts.tokens;
  const Partial* partials = &parts.partial(args, seq, head, 0);
  float m = -INFINITY;
  for (int i = 0; i < count; ++i) m = fmaxf(m, partials[i].m);
  float l = 0.0f;
  float acc = 0.0f;
  for (int i = 0; i < count; ++i) {
    const float factor = __expf(partials[i].m - m);
    l = fmaf(partials[i].l, factor, l);
    acc = fmaf(partials[i].acc[thread], factor, acc);
  }
  const int64_t at = head_element(args, seq, head) + thread;
  static_cast<bf16*>(args.out)[at] = __float2bfloat16(acc / l);
}

constexpr int kMinPartition = 256;
constexpr int64_t kEnoughCtas = 1024;  // eight for each of about 130 SMs

int parts_of(int len, int tokens) { return (len + tokens - 1) / tokens; }

}  // namespace

size_t partials_bytes(const PagedAttentionArgs& args) {
  return sizeof(Partial) * static_cast<size_t>(args.num_seqs) *
         static_cast<size_t>(args.num_heads) *
         static_cast<size_t>(parts_of(args.max_seq_len, kMinPartition));
}

Partitioning cut_keys(const PagedAttentionArgs& args, int ctas) {
  int tokens = kMaxPartition;
  const auto all_ctas = [&] {
    return int64_t{args.num_seqs} * ctas * parts_of(args.max_seq_len, tokens);
  };
  while (tokens > kMinPartition && all_ctas() < kEnoughCtas) tokens /= 2;
  return {.tokens = tokens,
          .count = parts_of(args.max_seq_len, tokens),
          .partials = static_cast<Partial*>(args.workspace)};
}

void merge_partitions(const PagedAttentionArgs& args, const Partitioning& parts,
                      const kv::Stream& stream) {
  const dim3 grid(static_cast<unsigned>(args.num_heads), static_cast<unsigned>(args.num_seqs));
  kv::launch(merge_partitions_kernel, {grid, dim3(kHeadDim), 0, "launching merge_partitions"},
             stream, args, parts);
}

void partitions(const PagedAttentionArgs& args, const kv::Stream& stream) {
  check_decode(args);
  const Partitioning parts = cut_keys(args, args.num_heads);
  const dim3 grid(static_cast<unsigned>(args.num_heads), static_cast<unsigned>(args.num_seqs),
                  static_cast<unsigned>(parts.count));
  kv::launch(partitions_kernel, {grid, dim3(kThreads), 0, "launching partitions"}, stream, args,
             parts);
  merge_partitions(args, parts, stream);
}

}  // namespace lesson04::road
