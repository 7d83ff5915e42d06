#include "windowed_attention.h"

#include <utility>

#include "group_slot_mapping.h"

namespace lesson10 {

WindowedAttention::WindowedAttention(const kv::ModelConfig& config, lesson03::PagedKvCache& cache,
                                     std::span<const KvCacheGroup> groups)
    : ServingAttention(config, cache),
      num_groups_(static_cast<int>(groups.size())),
      places_(places_of(groups)) {}

void WindowedAttention::add_tables(const kv::PassRows& rows, kv::PassArrays& arrays) {
  const auto per_group = std::ssize(tables_) / num_groups_;
  std::vector<int32_t> packed;
  for (auto first = tables_.begin(); first != tables_.end(); first += per_group) {
    const auto tables =
        lesson03::pack_block_tables(rows, {first, first + per_group}, max_blocks_per_seq_);
    packed.insert(packed.end(), tables.begin(), tables.end());
  }
  arrays.add(packed, group_tables_);
}

void WindowedAttention::add_slots(const kv::PassRows& rows, kv::PassArrays& arrays) {
  num_seqs_ = rows.num_seqs();
  arrays.make_room(group_slots_,
                   static_cast<size_t>(num_groups_) * rows.token_ids.size() * sizeof(int64_t));
  arrays.after_upload([this, &arrays, &rows](const kv::Stream& stream) {
    group_slot_mapping({.first_row = arrays.first_row,
                        .seq_len = arrays.seq_len,
                        .block_tables = group_tables_,
                        .num_groups = num_groups_,
                        .num_seqs = rows.num_seqs(),
                        .num_rows = rows.num_rows(),
                        .max_blocks_per_seq = max_blocks_per_seq_,
                        .block_size = cache_->block_size(),
                        .slot_mapping = group_slots_.as<int64_t>()},
                       stream);
  });
}

void WindowedAttention::forward(const kv::AttentionRows& rows, const kv::Stream& stream) {
  const LayerPlace place = places_.at(static_cast<size_t>(rows.layer));
  block_tables_ = group_tables_ + int64_t{place.group} * num_seqs_ * max_blocks_per_seq_;
  slot_mapping_ = group_slots_.as<const int64_t>() + int64_t{place.group} * rows.num_rows;
  kv::AttentionRows in_cache = rows;
  in_cache.layer = place.index;
  ServingAttention::forward(in_cache, stream);
}

}  // namespace lesson10
