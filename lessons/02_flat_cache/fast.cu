// The CUDA twin of decode_attention: few queries of a sequence spread its keys over the chip, many
// queries are kernels/attention/many_queries.cuh, as in lesson 01. Both by the contract, so the
// bits are the same.

#include "decode_attention.h"

#include <stdexcept>
#include <string>

#include "decode_plan.h"
#include "kernels/attention/head_dims.cuh"
#include "kernels/attention/many_queries.cuh"
#include "kernels/attention/spread_queries.cuh"

namespace lesson02 {

using kv::attention::AttentionPass;
using kv::attention::bf16;
using kv::attention::kGroupTiles;
using kv::attention::Pairs;

namespace {

/// One layer of the flat cache: [token slots, num_kv_heads, head_dim].
struct FlatRows {
  const bf16* k;
  const bf16* v;
  const int64_t* slab_begin;  // [num_seqs]
  int num_kv_heads;
  int head_dim;
  bool all_rows_are_new;

  __device__ kv::attention::EvenRows rows(int seq, int kv_head) const {
    const int64_t stride = static_cast<int64_t>(num_kv_heads) * head_dim;
    const int64_t begin = slab_begin[seq] * stride + static_cast<int64_t>(kv_head) * head_dim;
    return {k + begin, v + begin, stride};
  }
  /// Tokens whose rows were in the cache before this pass.
  __device__ int num_settled(const Pairs& pairs) const {
    return all_rows_are_new ? 0 : pairs.seq_len - pairs.num_rows;
  }
};

template <int kHeadDim, int kTiles>
void launch_few_queries(const DecodeAttentionArgs& args, const AttentionPass& pass,
                        const FlatRows& rows, const DecodePlan& plan, const kv::Stream& stream) {
  auto* counters = static_cast<unsigned int*>(args.workspace);
  const kv::attention::SpreadWorkspace workspace{
      .counters = counters, .partials = counters + kMaxCounters, .max_groups = plan.max_groups};
  const kv::Launch launch{
      dim3(static_cast<unsigned>(plan.max_groups), static_cast<unsigned>(args.num_kv_heads),
           static_cast<unsigned>(args.num_seqs * plan.blocks_per_seq)),
      dim3(kv::attention::spread_threads(kTiles)), 0, "launching decode attention"};
  kv::launch_dependent(kv::attention::spread_queries_kernel<kHeadDim, kTiles, FlatRows>, launch,
                       stream, pass, rows, workspace, plan.blocks_per_seq);
}

/// How many multiprocessors the device has, asked once.
int num_multiprocessors() {
  static const int count = [] {
    int device = 0;
    int value = 0;
    kv::cuda_backend::check(cudaGetDevice(&device), "asking for the current device");
    kv::cuda_backend::check(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, device),
                            "asking for the number of multiprocessors");
    return value;
  }();
  return count;
}

}  // namespace

void fast_decode_attention_cuda(const DecodeAttentionArgs& args, const kv::Stream& stream) {
  if (args.num_rows == 0) return;
  const AttentionPass pass{.q = static_cast<const bf16*>(args.q),
                           .out = static_cast<bf16*>(args.out),
                           .first_row = args.first_row,
                           .seq_len = args.seq_len,
                           .num_heads = args.num_heads,
                           .num_kv_heads = args.num_kv_heads,
                           .head_dim = args.head_dim};
  const FlatRows rows{.k = static_cast<const bf16*>(args.k_cache),
                      .v = static_cast<const bf16*>(args.v_cache),
                      .slab_begin = args.slab_begin,
                      .num_kv_heads = args.num_kv_heads,
                      .head_dim = args.head_dim,
                      .all_rows_are_new = args.all_rows_are_new};
  const DecodePlan plan(args);
  if (args.workspace == nullptr && plan.workspace_bytes(args.head_dim) > 0) {
    throw std::logic_error(
        "decode attention on CUDA: " + std::to_string(plan.workspace_bytes(args.head_dim)) +
        " bytes of workspace are needed, none is given");
  }
  kv::attention::with_head_dim(args.head_dim, [&](auto head_dim) {
    if (plan.few_queries && plan.num_blocks * plan.max_groups <= num_multiprocessors()) {
      launch_few_queries<head_dim.value, kGroupTiles>(args, pass, rows, plan, stream);
    } else if (plan.few_queries) {
      launch_few_queries<head_dim.value, kGroupTiles / 2>(args, pass, rows, plan, stream);
    } else {
      kv::attention::launch_many_queries<head_dim.value>(pass, rows, args.num_seqs,
                                                         args.max_rows_per_seq, stream);
    }
  });
}

}  // namespace lesson02
