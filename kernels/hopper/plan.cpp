#include "kernels/hopper/plan.h"

#include <algorithm>

namespace kv::hopper {
namespace {

/// True if kRuns serves the pass, and faster than the kernels for every GPU.
bool runs_serve(const Queries& queries, const Plan& plan, bool has_codes) {
  const int64_t kv_heads = int64_t{queries.num_seqs} * queries.num_kv_heads;
  const int heads = run_heads(queries.num_kv_heads, queries.head_dim);
  if (heads == 0 || queries.max_pairs() > kRunPairs || kv_heads > kWorkspaceCounters ||
      kv_heads * plan.max_groups < kEnoughGroups) {
    return false;
  }
  if (has_codes) return true;                                          // nothing streams them
  const int64_t groups = int64_t{queries.num_seqs} * plan.max_groups;  // of a CTA's heads at once
  const int ctas = std::max(1, kMeasuredSms / (queries.num_kv_heads / heads));
  const int64_t length = (groups + ctas - 1) / ctas;
  // Work for most of the CTAs.
  return merges_runs_apart(plan.max_groups, length) ? 4 * groups >= 3 * ctas * length
                                                    : groups >= ctas * 7 / 8;
}

}  // namespace

Path path_of(const Queries& queries, const Plan& plan, int contiguous_tokens, bool has_codes) {
  const bool small_blocks = contiguous_tokens < kCopiedTokens;
  if (small_blocks && has_codes) return Path::kNone;
  if (!small_blocks && runs_serve(queries, plan, has_codes)) return Path::kRuns;
  return plan.path == Plan::Path::kMany && serves_many(queries) ? Path::kWarpgroups : Path::kNone;
}

bool serves_many(const Queries& queries) {
  return (queries.head_dim == 64 || queries.head_dim == 128) && queries.window == 0;
}

const char* kernel_of(const Queries& queries, int contiguous_tokens, bool on_hopper) {
  const Plan plan(queries);
  const Path path = on_hopper ? path_of(queries, plan, contiguous_tokens) : Path::kNone;
  return path == Path::kRuns         ? "runs"
         : path == Path::kWarpgroups ? "warpgroups"
                                     : name_of(plan.path);
}

}  // namespace kv::hopper
