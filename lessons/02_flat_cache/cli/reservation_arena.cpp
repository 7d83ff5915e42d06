#include "lessons/02_flat_cache/cli/reservation_arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace lesson02 {

ReservationArena::ReservationArena(int64_t capacity) : capacity_(capacity) {
  if (capacity < 1) {
    throw std::invalid_argument(
        fmt::format("ReservationArena: capacity {}, wanted at least 1", capacity));
  }
}

std::optional<SlotRange> ReservationArena::reserve(int64_t size) {
  if (size < 1) {
    throw std::invalid_argument(
        fmt::format("ReservationArena: cannot reserve {} slots, wanted at least 1", size));
  }
  for (const SlotRange& hole : holes()) {
    if (hole.size < size) continue;
    reserved_.emplace(hole.begin, size);
    return SlotRange{hole.begin, size};
  }
  return std::nullopt;
}

void ReservationArena::release(const SlotRange& range) {
  const auto found = reserved_.find(range.begin);
  if (found == reserved_.end() || found->second != range.size) {
    throw std::invalid_argument(fmt::format("ReservationArena: slots {} to {} are not reserved",
                                            range.begin, range.begin + range.size - 1));
  }
  reserved_.erase(found);
}

int64_t ReservationArena::total_free() const {
  int64_t slots = capacity_;
  for (const auto& [begin, size] : reserved_) slots -= size;
  return slots;
}

int64_t ReservationArena::largest_hole() const {
  int64_t largest = 0;
  for (const SlotRange& hole : holes()) largest = std::max(largest, hole.size);
  return largest;
}

std::vector<SlotRange> ReservationArena::reserved() const {
  std::vector<SlotRange> ranges;
  for (const auto& [begin, size] : reserved_) ranges.push_back({begin, size});
  return ranges;
}

std::vector<SlotRange> ReservationArena::holes() const {
  std::vector<SlotRange> ranges;
  int64_t end = 0;  // of the range before
  for (const auto& [begin, size] : reserved_) {
    if (begin > end) ranges.push_back({end, begin - end});
    end = begin + size;
  }
  if (capacity_ > end) ranges.push_back({end, capacity_ - end});
  return ranges;
}

}  // namespace lesson02
