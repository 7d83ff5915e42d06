#include "kernels/round_kv.h"

#include <algorithm>

#include "common/parallel.h"

namespace kv {

void round_kv_cpu(const RoundKvArgs& args) {
  const int64_t num_heads = int64_t{args.num_rows} * args.num_kv_heads;
  for (void* const rows : {args.kv.k, args.kv.v}) {
    parallel_for(num_heads, 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t slot = args.kv.slot_of(i / args.num_kv_heads);
        if (slot < 0) continue;
        const int64_t head = slot * args.num_kv_heads + i % args.num_kv_heads;
        float* const x = static_cast<float*>(rows) + head * args.head_dim;
        float largest = 0.0f;
        for (int d = 0; d < args.head_dim; ++d) largest = std::max(largest, std::fabs(x[d]));
        const float scale = e4m3_scale(largest);
        for (int d = 0; d < args.head_dim; ++d) x[d] = round_to_e4m3(x[d], scale);
      }
    });
  }
}

}  // namespace kv
