#include "instruments/serve/event_log.h"

#include <utility>

namespace watch {

using lesson07::CacheEvent;

std::optional<Frame> EventLog::take(double ts) {
  if (std::exchange(lost_, false)) {
    events_.clear();
    ++next_seq_;
  }
  if (events_.empty()) return std::nullopt;
  EventBatch batch{.ts = ts, .events = std::exchange(events_, {})};
  return Frame{.seq = next_seq_++, .payload = encode(batch)};
}

void EventLog::note(const CacheEvent& event) noexcept {
  try {
    if (event.kind == CacheEvent::Kind::kStored) return stored(event);
    if (event.kind == CacheEvent::Kind::kRemoved) return removed(event);
    prefixes_.clear();
    prefix_of_.clear();
    events_.emplace_back(AllBlocksCleared{});
  } catch (...) {  // no memory; the pool is in the middle of a change
    lost_ = true;
  }
}

void EventLog::stored(const CacheEvent& event) {
  const lesson06::BlockKey& key = *event.key;
  std::optional<BlockHash> parent;
  if (key.parent) {
    const auto before = prefixes_.find(*key.parent);
    if (before == prefixes_.end()) return;
    parent = hash_of(before->second.hash);
  }
  Prefix& prefix = prefixes_[event.prefix];
  prefix_of_[event.block_id] = event.prefix;
  prefix.hash = event.hash;
  ++prefix.num_blocks;

  std::string lora;
  std::vector<std::string> extra;
  for (const lesson06::ExtraKey& one : key.extra_keys) {
    if (one.kind == lesson06::ExtraKey::Kind::kAdapter) {
      lora = one.value;
    } else {
      extra.push_back(one.value);
    }
  }
  auto* const last = events_.empty() ? nullptr : std::get_if<BlockStored>(&events_.back());
  const bool goes_on = last != nullptr && parent == last->block_hashes.back() &&
                       lora == last->lora_name && extra.empty() == last->extra_keys.empty();
  if (!goes_on) {
    events_.emplace_back(BlockStored{.parent_block_hash = std::move(parent),
                                     .block_size = static_cast<int>(key.tokens.size()),
                                     .lora_name = std::move(lora)});
  }
  auto& to = std::get<BlockStored>(events_.back());
  to.block_hashes.push_back(hash_of(event.hash));
  to.token_ids.insert(to.token_ids.end(), key.tokens.begin(), key.tokens.end());
  if (!extra.empty()) to.extra_keys.push_back(std::move(extra));
}

void EventLog::removed(const CacheEvent& event) {
  const auto block = prefix_of_.find(event.block_id);
  if (block == prefix_of_.end()) return;
  const auto prefix = prefixes_.find(block->second);
  if (--prefix->second.num_blocks == 0) prefixes_.erase(prefix);
  prefix_of_.erase(block);
  events_.emplace_back(BlockRemoved{.block_hashes = {hash_of(event.hash)}});
}

}  // namespace watch
