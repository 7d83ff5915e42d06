#include "lessons/14_fp8_pages/write_kv_fp8.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "common/parallel.h"
#include "e4m3.h"

namespace lesson14 {
namespace {

constexpr int64_t kRowsWorthAThread = 16;

/// Writes one head of K or of V; `x` is [head_dim].
void write_head(const float* x, int head_dim, const Fp8Head& out) {
  float largest = 0.0f;
  for (int d = 0; d < head_dim; ++d) largest = std::max(largest, std::fabs(x[d]));
  const int exponent = scale_exponent(largest);
  *out.scale = byte_of(exponent);
  for (int d = 0; d < head_dim; ++d) out.codes[d] = encode(x[d], exponent);
}

}  // namespace

void write_kv_fp8_cpu(const WriteKvFp8Args& args) {
  const Fp8Blocks& cache = args.cache;
  kv::parallel_for(args.num_rows, kRowsWorthAThread, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t slot = args.slot_mapping[row];
      assert(slot == lesson03::kNoSlot || cache.has_slot(slot));
      if (!cache.has_slot(slot)) continue;
      const int64_t block_id = slot / cache.block_size;
      const auto offset = static_cast<int>(slot % cache.block_size);
      for (const bool is_k : {true, false}) {
        const auto* x = static_cast<const float*>(is_k ? args.k : args.v) + row * cache.row_width();
        for (int head = 0; head < cache.num_kv_heads; ++head) {
          write_head(x + int64_t{head} * cache.head_dim, cache.head_dim,
                     fp8_head(cache, is_k, block_id, offset, head));
        }
      }
    }
  });
}

}  // namespace lesson14
