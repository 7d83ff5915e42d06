#include "append_kv.h"

#include <algorithm>

#include "common/base/parallel.h"

namespace lesson02 {

void append_kv_cpu(const AppendKvArgs& args) {
  const auto* k = static_cast<const float*>(args.k);
  const auto* v = static_cast<const float*>(args.v);
  auto* k_cache = static_cast<float*>(args.k_cache);
  auto* v_cache = static_cast<float*>(args.v_cache);
  const int64_t width = args.row_elements;  // one token's K, or V: [num_kv_heads, head_dim]

  constexpr int64_t kRowsWorthAThread = 16;
  kv::parallel_for(args.num_rows, kRowsWorthAThread, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t slot = args.slab_begin[args.row_slab[row]] + args.row_position[row];
      std::copy_n(k + row * width, width, k_cache + slot * width);
      std::copy_n(v + row * width, width, v_cache + slot * width);
    }
  });
}

}  // namespace lesson02
