#pragma once

// Lesson 08's attention over a cache in FP8.

#include <utility>

#include "fp8_attention.h"
#include "lessons/04_paged_attention/paged_cache_attention.h"
#include "lessons/08_scheduler/serving_attention.h"
#include "qwen3/attention.h"
#include "write_kv_fp8.h"

namespace lesson14 {

/// A prefill attends to what it has written, quantised: else a token's bits would depend on how
/// much of its prompt had been cached before.
class Fp8CacheAttention : public kv::Attention {
 public:
  /// Borrows the cache.
  Fp8CacheAttention(const kv::ModelConfig& config, const Fp8KvCache& cache)
      : pass_(config, cache.codes()), cache_(&cache) {}

  /// The tables of the next pass's sequences, which have slots for all of its rows.
  void set_tables(lesson03::BlockTables tables) { tables_ = std::move(tables); }
  void begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) override {
    pass_.begin(rows, tables_, arrays);
    arrays.make_room(slots_, rows.token_ids.size() * sizeof(int64_t));
  }
  void forward(const kv::AttentionRows& rows, const kv::Stream& stream) override {
    const Fp8Blocks layer = cache_->layer(rows.layer);
    const Fp8AttentionArgs args{pass_.args_of(rows), layer.scales};
    if (rows.layer == 0) {
      lesson08::compute_slot_mapping(lesson08::slots_of(args, slots_.as<int64_t>()), stream);
    }
    write_kv_fp8({.k = rows.k,
                  .v = rows.v,
                  .slot_mapping = slots_.as<int64_t>(),
                  .num_rows = rows.num_rows,
                  .cache = layer},
                 stream);
    const bool plain = rows.kernel == kv::Kernel::kPlain;
    (plain ? fp8_attention : fast_fp8_attention)(args, stream);
  }
  bool rounds_kv() const override { return true; }

 private:
  lesson04::PagedPass pass_;
  const Fp8KvCache* cache_;
  lesson03::BlockTables tables_;
  kv::DeviceBuffer slots_;  // int64 [num_rows]
};

}  // namespace lesson14
