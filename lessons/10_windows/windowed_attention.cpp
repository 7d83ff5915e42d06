#include "windowed_attention.h"

#include <utility>

namespace lesson10 {

WindowedAttention::WindowedAttention(const kv::ModelConfig& config, lesson03::PagedKvCache& cache,
                                     std::span<const KvCacheGroup> groups)
    : ServingAttention(config, cache),
      groups_{.first = {}, .num_groups = static_cast<int>(groups.size())},
      places_(places_of(groups)) {}

void WindowedAttention::add_tables(const kv::PassRows& rows, kv::PassArrays& arrays) {
  const auto per_group = std::ssize(tables_) / groups_.num_groups;
  std::vector<int32_t> packed;
  for (auto first = tables_.begin(); first != tables_.end(); first += per_group) {
    const auto tables =
        lesson03::pack_block_tables(rows, {first, first + per_group}, max_blocks_per_seq_);
    packed.insert(packed.end(), tables.begin(), tables.end());
  }
  arrays.add(packed, block_tables_);
}

void WindowedAttention::add_slots(const kv::PassRows& rows, kv::PassArrays& arrays) {
  const auto num_slots = static_cast<size_t>(groups_.num_groups) * rows.token_ids.size();
  arrays.make_room(slots_, num_slots * sizeof(int64_t));
  arrays.after_upload([this, &arrays, &rows](const kv::Stream& stream) {
    groups_.first = slot_args(rows, arrays);
    group_slot_mapping(groups_, stream);
  });
}

void WindowedAttention::forward(const kv::AttentionRows& rows, const kv::Stream& stream) {
  const LayerPlace place = places_.at(static_cast<size_t>(rows.layer));
  const lesson08::ComputeSlotMappingArgs own = of_group(groups_, place.group);
  block_tables_ = own.block_tables;
  slot_mapping_ = own.slot_mapping;
  kv::AttentionRows in_cache = rows;
  in_cache.layer = place.index;
  ServingAttention::forward(in_cache, stream);
}

}  // namespace lesson10
