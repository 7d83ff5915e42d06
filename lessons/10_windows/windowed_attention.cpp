#include "windowed_attention.h"

#include "common/error.h"

namespace lesson10 {

WindowedAttention::WindowedAttention(const kv::ModelConfig& config, lesson03::PagedKvCache& cache,
                                     std::span<const KvCacheGroup> groups)
    : places_(places_of(groups)) {
  if (groups.size() > kMaxGroups) {
    kv::user_error("the model's layers are in {} groups, wanted at most {}", groups.size(),
                   kMaxGroups);
  }
  for (size_t group = 0; group < groups.size(); ++group) passes_.emplace_back(config, cache);
}

void WindowedAttention::begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) {
  auto first = tables_.begin();
  for (lesson04::PagedPass& pass : passes_) {
    pass.begin(rows, {first, first + rows.num_seqs()}, arrays);
    first += rows.num_seqs();
  }
  arrays.make_room(slots_, passes_.size() * rows.token_ids.size() * sizeof(int64_t));
}

void WindowedAttention::compute_slots(const kv::AttentionRows& rows,
                                      const kv::Stream& stream) const {
  GroupSlotMappingArgs args{.num_groups = static_cast<int>(passes_.size())};
  for (size_t group = 0; group < passes_.size(); ++group) {
    const lesson04::PagedAttentionArgs pass = passes_[group].args_of(rows);
    args.block_tables[group] = pass.block_tables;
    args.rows = {.first_row = pass.first_row,
                 .seq_len = pass.seq_len,
                 .num_seqs = pass.num_seqs,
                 .num_rows = pass.num_rows,
                 .max_blocks_per_seq = pass.max_blocks_per_seq,
                 .block_size = pass.cache.block_size,
                 .slot_mapping = slots_.as<int64_t>()};
  }
  group_slot_mapping(args, stream);
}

void WindowedAttention::forward(const kv::AttentionRows& rows, const kv::Stream& stream) {
  if (rows.layer == 0 && rows.heads == nullptr) compute_slots(rows, stream);
  const LayerPlace place = places_.at(static_cast<size_t>(rows.layer));
  kv::AttentionRows in_cache = rows;
  in_cache.layer = place.index;
  const int64_t* const slots = slots_.as<int64_t>() + int64_t{place.group} * rows.num_rows;
  passes_[static_cast<size_t>(place.group)].forward(in_cache, slots, stream);
}

}  // namespace lesson10
