#pragma once

// Queues attention over rows that an address finds (rows.cuh); called by a lesson's fast.cu.

#include <stdexcept>
#include <string>

#include "kernels/attention/fp8/fp8_many_tiles.cuh"
#include "kernels/attention/fp8/fp8_share.cuh"
#include "kernels/attention/head_dims.cuh"
#include "kernels/attention/many/many_queries.cuh"
#include "kernels/attention/merge_groups.cuh"
#include "kernels/attention/plan.h"
#include "kernels/attention/spread/spread_queries.cuh"
#include "kernels/attention/stream/stream_queries.cuh"
#include "kernels/hopper/attend.cuh"
#include "kernels/launch.cuh"

namespace kv::attention {

/// Path kMany.
template <int kHeadDim, class Address>
void launch_many(const Queries& queries, const Address& address, const Stream& stream) {
  constexpr size_t kSharedBytes = sizeof(ManyShared<kHeadDim>);
  static_assert(kSharedBytes <= 99 * 1024);
  const auto kernel = many_queries_kernel<kHeadDim, Address>;
  [[maybe_unused]] static const bool ready = ask_for_shared(kernel, kSharedBytes);
  const int64_t pairs = queries.max_pairs();
  const dim3 grid(static_cast<unsigned>((pairs + kManyPairs - 1) / kManyPairs),
                  static_cast<unsigned>(queries.num_kv_heads),
                  static_cast<unsigned>(queries.num_seqs));
  launch_dependent(kernel, {grid, dim3(kManyThreads), kSharedBytes, "launching attention"}, stream,
                   queries, address);
}

/// Path kSpread.
template <int kHeadDim, class Address>
void launch_spread(const Queries& queries, const Plan& plan, const Address& address,
                   void* workspace, const Stream& stream) {
  auto* counters = static_cast<unsigned int*>(workspace);
  const bool clusters = plan.in_clusters && cuda_backend::compute_major() >= 9;
  const SpreadWorkspace groups{.counters = counters,
                               .partials = counters + kWorkspaceCounters,
                               .max_groups = plan.max_groups,
                               .in_clusters = clusters};
  const dim3 grid(static_cast<unsigned>(plan.max_groups),
                  static_cast<unsigned>(queries.num_kv_heads),
                  static_cast<unsigned>(queries.num_seqs * plan.blocks_per_seq));
  const auto kernel = queries.window > 0 ? spread_queries_kernel<kHeadDim, true, Address>
                                         : spread_queries_kernel<kHeadDim, false, Address>;
  launch_dependent(kernel,
                   {grid, dim3(kSpreadThreads), 0, "launching attention", clusters ? grid.x : 1},
                   stream, queries, address, groups, plan.blocks_per_seq);
}

/// Path kStream, for 8 (kHalves 1) or 16 pairs at a time.
template <int kHeadDim, int kHalves, class Address>
void launch_stream(const Queries& queries, const Plan& plan, const Address& address,
                   void* workspace, const Stream& stream) {
  constexpr size_t kSharedBytes = sizeof(StreamTile<kHeadDim>);
  static_assert(kSharedBytes <= 48 * 1024);  // more would need ask_for_shared()
  const auto heads = static_cast<unsigned>(queries.num_kv_heads);
  const auto blocks = static_cast<unsigned>(queries.num_seqs * plan.blocks_per_seq);
  const auto kernel = queries.window > 0 ? stream_queries_kernel<kHeadDim, kHalves, true, Address>
                                         : stream_queries_kernel<kHeadDim, kHalves, false, Address>;
  auto* const partials = partials_of<PartialGroup<kHeadDim>>(workspace);
  launch_dependent(kernel,
                   {dim3(heads, static_cast<unsigned>(plan.max_groups), blocks), dim3(32),
                    kSharedBytes, "launching attention"},
                   stream, queries, address, partials, plan.max_groups, plan.blocks_per_seq);
  if (plan.max_groups > 1) launch_merge(queries, plan, partials, stream);
}

/// The plan of a pass over rows in bf16, or over codes.
template <class Address>
Plan plan_of(const Queries& queries, const Address& address) {
  if constexpr (kHasCodes<Address>) {
    return Plan::of_codes(queries, address.block_size, cuda_backend::num_sms());
  } else {
    return Plan(queries);
  }
}

/// Queues attention of any pass, as its plan says. `workspace`: at least Plan::workspace_bytes,
/// filled with zeros once by its owner. The kernels leave its counters at zero.
template <class Address>
void launch_attention(const Queries& queries, const Address& address, void* workspace,
                      const Stream& stream) {
  if (queries.num_rows == 0) return;
  const Plan plan = plan_of(queries, address);
  if (workspace == nullptr && plan.workspace_bytes > 0) {
    throw std::logic_error("attention on CUDA: " + std::to_string(plan.workspace_bytes) +
                           " bytes of workspace are needed, none is given");
  }
  if (hopper::attend(queries, plan, address, workspace, stream)) return;
  with_head_dim(queries.head_dim, [&](auto head_dim) {
    constexpr int kHeadDim = head_dim.value;
    if constexpr (!kHasCodes<Address>) {  // nothing streams codes
      if (plan.path == Plan::Path::kStream) {
        return plan.pairs_per_block == 8
                   ? launch_stream<kHeadDim, 1>(queries, plan, address, workspace, stream)
                   : launch_stream<kHeadDim, 2>(queries, plan, address, workspace, stream);
      }
    }
    if (plan.path == Plan::Path::kMany) return launch_many<kHeadDim>(queries, address, stream);
    launch_spread<kHeadDim>(queries, plan, address, workspace, stream);
  });
}

/// Queues attention of a pass with many queries for each sequence. Needs no workspace.
template <class Address>
void launch_many_queries(const Queries& queries, const Address& address, const Stream& stream) {
  if (queries.num_rows == 0 || hopper::attend_many(queries, address, stream)) return;
  with_head_dim(queries.head_dim,
                [&](auto head_dim) { launch_many<head_dim.value>(queries, address, stream); });
}

}  // namespace kv::attention
