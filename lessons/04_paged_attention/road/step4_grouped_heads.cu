// Step 4: a CTA serves all query heads of a KV head, so that a row of K or V is loaded once and
// used by each of them. Grouped-query attention, GQA, is made for this.
//
// The idea: two, four or eight query heads have the same keys and values. A row that a lane has
// loaded for one head costs the others no load, only products.
//
// Must be read: K and V once, 2 x 256 bytes for each token and KV head; and now each row is
// requested only once. Partitions as in step 3.
//
// The limit: with two heads, the loads in flight, as before. With eight heads, the arithmetic:
// eight products for each loaded element, and a sum over 16 lanes for each head and key. Such a sum
// is four shuffles, as slow as loads from shared memory.
//
//   thread   team threadIdx.x / 16, and in it lane threadIdx.x % 16: elements 8 lane .. 8 lane + 7
//            of a key and of all heads' q and acc
//   team     tokens begin + team, begin + team + 8, ...
//   warp     the softmax of heads warp, warp + 4
//   shared   the scores, [heads][tokens]; after the last barrier but one the teams' sums,
//            [8 teams][heads][128]

#include "road.cuh"

namespace lesson04::road {
namespace {

__device__ float warp_max(float x) {
  for (int mask = 16; mask > 0; mask /= 2) x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, mask));
  return x;
}

/// Turns one head's scores into exp(score - m), and stores m and l. Called by one warp.
__device__ void softmax(float* scores, int len, Partial& partial) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float m = -INFINITY;
  for (int token = lane; token < len; token += 32) m = fmaxf(m, scores[token]);
  m = warp_max(m);
  float l = 0.0f;
  for (int token = lane; token < len; token += 32) {
    scores[token] = __expf(scores[token] - m);
    l += scores[token];
  }
  l = kv::warp_sum(l);
  if (lane == 0) partial.m = m, partial.l = l;
}

/// Grid: (num_kv_heads, num_seqs, parts.count). kGroup: query heads of one KV head.
template <int kGroup>
__global__ void __launch_bounds__(kThreads)
    grouped_heads_kernel(PagedAttentionArgs args, Partitioning parts) {
  __shared__ float shared[kGroup * kMaxPartition];
  const int head = static_cast<int>(blockIdx.x) * kGroup;  // first head of the group
  const int seq = static_cast<int>(blockIdx.y);
  const int part = static_cast<int>(blockIdx.z);
  const int begin = part * parts.tokens;
  const int len = min(args.seq_len[seq] - begin, parts.tokens);  // tokens of this partition
  if (len <= 0) return;
  const int thread = static_cast<int>(threadIdx.x);
  const int team = thread / kTeamLanes;
  const int lane = thread % kTeamLanes;
  const Rows rows(args, seq, static_cast<int>(blockIdx.x));

  float q[kGroup][8];
#pragma unroll
  for (int h = 0; h < kGroup; ++h) {
    const int64_t at = head_element(args, seq, head + h);
    floats_of(load_piece(static_cast<const bf16*>(args.q) + at, lane), q[h]);
  }
  const auto key_row = [&](int token) { return rows.key(begin + token); };
  for_each_row(len, key_row, [&](int token, const float(&k)[8]) {
#pragma unroll
    for (int h = 0; h < kGroup; ++h) {
      const float score = team_dot(q[h], k) * score_scale();
      if (lane == 0 && token < len) shared[h * kMaxPartition + token] = score;
    }
  });
  __syncthreads();
  for (int h = thread / 32; h < kGroup; h += kWarps) {
    softmax(shared + h * kMaxPartition, len, parts.partial(args, seq, head + h, part));
  }
  __syncthreads();

  float acc[kGroup][8] = {};
  const auto value_row = [&](int token) { return rows.value(begin + token); };
  for_each_row(len, value_row, [&](int token, const float(&v)[8]) {
#pragma unroll
    for (int h = 0; h < kGroup; ++h) {
      const float p = token < len ? shared[h * kMaxPartition + token] : 0.0f;
#pragma unroll
      for (int i = 0; i < 8; ++i) acc[h][i] = fmaf(p, v[i], acc[h][i]);
    }
  });
  __syncthreads();  // all threads have read the scores
#pragma unroll
  for (int h = 0; h < kGroup; ++h) {
#pragma unroll
    for (int i = 0; i < 8; ++i) shared[(team * kGroup + h) * kHeadDim + 8 * lane + i] = acc[h][i];
  }
  __syncthreads();
  for (int h = 0; h < kGroup; ++h) {
    float sum = 0.0f;  // for element `thread`
    for (int i = 0; i < kTeams; ++i) sum += shared[(i * kGroup + h) * kHeadDim + thread];
    parts.partial(args, seq, head + h, part).acc[thread] = sum;
  }
}

template <int kGroup>
void launch_group(const PagedAttentionArgs& args, const Partitioning& parts,
                  const kv::Stream& stream) {
  const dim3 grid(static_cast<unsigned>(args.cache.num_kv_heads),
                  static_cast<unsigned>(args.num_seqs), static_cast<unsigned>(parts.count));
  kv::launch(grouped_heads_kernel<kGroup>, {grid, dim3(kThreads), 0, "launching grouped_heads"},
             stream, args, parts);
}

}  // namespace

void grouped_heads(const PagedAttentionArgs& args, const kv::Stream& stream) {
  check_decode(args);
  const Partitioning parts = cut_keys(args, args.cache.num_kv_heads);
  switch (args.num_heads / args.cache.num_kv_heads) {
    case 1:
      launch_group<1>(args, parts, stream);
      break;
    case 2:
      launch_group<2>(args, parts, stream);
      break;
    case 4:
      launch_group<4>(args, parts, stream);
      break;
    case 8:
      launch_group<8>(args, parts, stream);
      break;
    default:
      throw std::invalid_argument("grouped heads: wanted 1, 2, 4 or 8 query heads a KV head");
  }
  merge_partitions(args, parts, stream);
}

}  // namespace lesson04::road
