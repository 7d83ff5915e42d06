#pragma once

// Which passes of attention the kernels for Hopper take. Plain arithmetic, as attention/plan.h.

#include "kernels/attention/plan.h"

namespace kv::hopper {

using namespace attention;

enum class Path {
  kNone,        // the pass is served by the kernels for every GPU
  kRuns,        // few queries, much K and V: a CTA for each SM takes a run of groups
  kWarpgroups,  // many queries, by wgmma
};

/// Limits of run_queries.cuh: most pairs of a sequence and KV head, and the KV heads of a CTA, 8, 4
/// or 2, or 0 if it does not serve this shape. A CTA's part of a row must be whole parts of 128
/// bytes.
inline constexpr int kRunPairs = 8;
constexpr int run_heads(int num_kv_heads, int head_dim) {
  if (head_dim != 64 && head_dim != 80 && head_dim != 96 && head_dim != 128) return 0;
  if (num_kv_heads % 8 == 0) return 8;
  if (head_dim % 64 != 0) return 0;
  if (num_kv_heads % 4 == 0) return 4;
  return num_kv_heads % 2 == 0 ? 2 : 0;
}
/// The last warp of a sequence merges its groups, unless there are many more of them than in a run,
/// which has `length`. Then a launch of its own merges.
constexpr bool merges_runs_apart(int max_groups, int64_t length) { return max_groups > 8 * length; }

/// The path of a pass, for which other GPUs have `plan`. `contiguous_tokens`: LayerRows's.
Path path_of(const Queries& queries, const Plan& plan, int contiguous_tokens,
             bool has_codes = false);
/// True if kWarpgroups serves many queries over rows in bf16.
bool serves_many(const Queries& queries);
/// The kernel of a pass over bf16: "spread", "stream" or "many", or on Hopper "runs" or
/// "warpgroups".
const char* kernel_of(const Queries& queries, int contiguous_tokens, bool on_hopper);

}  // namespace kv::hopper
