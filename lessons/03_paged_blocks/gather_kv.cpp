#include "gather_kv.h"

#include <algorithm>

#include "common/base/parallel.h"

namespace lesson03 {

void gather_kv_cpu(const GatherKvArgs& args) {
  const int64_t width = int64_t{args.cache.num_kv_heads} * args.cache.head_dim;
  auto* k_out = static_cast<float*>(args.k_out);
  auto* v_out = static_cast<float*>(args.v_out);

  for (int seq = 0; seq < args.num_seqs; ++seq) {
    const int32_t* table = args.block_tables + int64_t{seq} * args.max_blocks_per_seq;
    constexpr int64_t kRowsWorthAThread = 16;
    kv::parallel_for(args.seq_len[seq], kRowsWorthAThread, [&](int64_t begin, int64_t end) {
      for (int64_t token = begin; token < end; ++token) {
        const int32_t block_id = table[token / args.cache.block_size];
        const auto offset = static_cast<int>(token % args.cache.block_size);
        const int64_t out = (args.out_begin[seq] + token) * width;
        std::copy_n(k_row<float>(args.cache, block_id, offset), width, k_out + out);
        std::copy_n(v_row<float>(args.cache, block_id, offset), width, v_out + out);
      }
    });
  }
}

}  // namespace lesson03
