// Exercise of lesson 02: write what is missing here, then `./course exercise 2`.
// What each function promises stands in ../reservation_arena.h. The lesson's version is
// ../reservation_arena.cpp: try before you look.

#include "reservation_arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "common/todo.h"

namespace lesson02 {

ReservationArena::ReservationArena(int64_t capacity) : capacity_(capacity) {
  if (capacity < 1) {
    throw std::invalid_argument(
        fmt::format("ReservationArena: capacity {}, wanted at least 1", capacity));
  }
}

std::optional<SlotRange> ReservationArena::reserve(int64_t size) {
  // The first hole that is large enough gives its front. None: no value. A size below 1 is
  // std::invalid_argument.
  KV_TODO("ReservationArena::reserve");
}

void ReservationArena::release(const SlotRange& range) {
  // Only a range that was reserved, just as it was, can be released: anything else is
  // std::invalid_argument and changes nothing.
  KV_TODO("ReservationArena::release");
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
  // What lies between the reserved ranges, before the first and behind the last. reserved_ is in
  // order.
  KV_TODO("ReservationArena::holes");
}

}  // namespace lesson02
