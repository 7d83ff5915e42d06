#include "write_kv.h"

#include <algorithm>
#include <cassert>

#include "common/base/parallel.h"

namespace lesson03 {

void write_kv_cpu(const WriteKvArgs& args) {
  const int64_t width = int64_t{args.cache.num_kv_heads} * args.cache.head_dim;
  const auto* k = static_cast<const float*>(args.k);
  const auto* v = static_cast<const float*>(args.v);

  constexpr int64_t kRowsWorthAThread = 16;
  kv::parallel_for(args.num_rows, kRowsWorthAThread, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t slot = args.slot_mapping[row];
      assert(slot == kNoSlot || has_slot(args.cache, slot));
      if (!has_slot(args.cache, slot)) continue;
      const int64_t block_id = slot / args.cache.block_size;
      const auto offset = static_cast<int>(slot % args.cache.block_size);
      std::copy_n(k + row * width, width, k_row<float>(args.cache, block_id, offset));
      std::copy_n(v + row * width, width, v_row<float>(args.cache, block_id, offset));
    }
  });
}

}  // namespace lesson03
