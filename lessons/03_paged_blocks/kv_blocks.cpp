#include "kv_blocks.h"

#include <algorithm>
#include <cassert>

#include "common/parallel.h"

namespace lesson03 {

static constexpr int64_t kRowsWorthAThread = 16;

void write_kv_cpu(const WriteKvArgs& args) {
  const int64_t width = args.cache.row_width();
  const auto* k = static_cast<const float*>(args.k);
  const auto* v = static_cast<const float*>(args.v);
  kv::parallel_for(args.num_rows, kRowsWorthAThread, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t slot = args.slot_mapping[row];
      assert(slot == kNoSlot || args.cache.has_slot(slot));
      if (!args.cache.has_slot(slot)) continue;
      const int64_t block_id = slot / args.cache.block_size;
      const auto offset = static_cast<int>(slot % args.cache.block_size);
      std::copy_n(k + row * width, width, k_row<float>(args.cache, block_id, offset));
      std::copy_n(v + row * width, width, v_row<float>(args.cache, block_id, offset));
    }
  });
}

void gather_kv_cpu(const GatherKvArgs& args) {
  const int64_t width = args.cache.row_width();
  auto* k_out = static_cast<float*>(args.k_out);
  auto* v_out = static_cast<float*>(args.v_out);
  for (int seq = 0; seq < args.num_seqs; ++seq) {
    const int32_t* table = args.block_tables + int64_t{seq} * args.max_blocks_per_seq;
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
