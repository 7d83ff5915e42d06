#include "instruments/replay/set_caches.h"

#include <algorithm>

namespace replay {
namespace {

size_t at(int32_t slot) { return static_cast<size_t>(slot); }

}  // namespace

SetCache::SetCache(int num_blocks)
    : Cache(num_blocks), index_(num_blocks, IdKey::kTokens), pinned_by_(at(num_blocks)) {}

int64_t SetCache::serve(std::span<const uint64_t> ids, int64_t position) {
  ++request_;
  slots_.assign(ids.size(), -1);
  int64_t found = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const IdKey id(ids[i]);
    const lesson06::CachedBlock* const match = index_.find(id.key());
    if (match == nullptr) continue;
    slots_[i] = match->id;
    pinned_by_[at(match->id)] = request_;
    found += found == static_cast<int64_t>(i);  // all before it were found
  }
  for (size_t i = ids.size(); i-- > 0;) {  // the tail before the head
    if (slots_[i] >= 0) continue;
    const int32_t slot = num_used_ < num_blocks() ? num_used_++ : victim();
    num_evicted_ += index_.erase(slot).has_value();
    const IdKey id(ids[i]);
    index_.insert(slot, id.key());
    pinned_by_[at(slot)] = request_;
    slots_[i] = slot;
    on_stored(slot);
  }
  on_served(slots_, position);
  count_evicted(num_evicted_);
  return found;
}

int32_t FifoCache::victim() {
  while (is_pinned(order_.front())) {
    passed_.push_back(order_.front());
    order_.pop_front();
  }
  const int32_t slot = order_.front();
  order_.pop_front();
  return slot;
}

void FifoCache::on_served(std::span<const int32_t>, int64_t) {
  order_.insert(order_.begin(), passed_.begin(), passed_.end());
  passed_.clear();
}

int32_t RandomCache::victim() {
  for (;;) {
    const auto slot = static_cast<int32_t>(rng_() % static_cast<uint64_t>(num_used()));
    if (!is_pinned(slot)) return slot;
  }
}

OptimalCache::OptimalCache(int num_blocks, const NextUses& next_uses)
    : SetCache(num_blocks), next_uses_(&next_uses), next_(at(num_blocks)) {}

int32_t OptimalCache::victim() {
  for (;;) {
    const auto [next, slot] = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.pop_back();
    if (next_[at(slot)] == next && !is_pinned(slot)) return slot;
  }
}

void OptimalCache::on_served(std::span<const int32_t> slots, int64_t position) {
  for (size_t i = 0; i < slots.size(); ++i) {
    int64_t& next = next_[at(slots[i])];
    next = next_uses_->after(position + static_cast<int64_t>(i));
    heap_.emplace_back(next, slots[i]);
    std::push_heap(heap_.begin(), heap_.end());
  }
  if (std::ssize(heap_) > 4 * int64_t{num_blocks()} + 1024) rebuild();
}

/// Without what has been used since it was put there.
void OptimalCache::rebuild() {
  std::erase_if(heap_, [&](const auto& entry) { return next_[at(entry.second)] != entry.first; });
  std::make_heap(heap_.begin(), heap_.end());
}

}  // namespace replay
