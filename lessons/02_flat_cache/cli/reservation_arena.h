#pragma once

// Reservations of a server without pages, for requests that differ in length. Each request gets a
// run of token slots of just the right size, out of one contiguous range, and gives it back at the
// end. This class shows that the holes that are left do not add up.

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace lesson02 {

/// A run of token slots [begin, begin + size).
struct SlotRange {
  int64_t begin = 0;
  int64_t size = 0;
  friend bool operator==(const SlotRange&, const SlotRange&) = default;
};

/// First-fit reservations over slots [0, capacity). Reserved ranges and holes tile the capacity, no
/// two overlap, and no two holes touch.
class ReservationArena {
 public:
  /// Throws std::invalid_argument unless capacity is at least 1.
  explicit ReservationArena(int64_t capacity);

  /// Takes the first hole, from slot 0 on, that is large enough. Returns no value, and changes
  /// nothing, if no hole is. Throws std::invalid_argument unless size is at least 1.
  std::optional<SlotRange> reserve(int64_t size);

  /// Gives a range back; it joins the holes next to it. Throws std::invalid_argument, naming the
  /// range, for one that is not reserved; nothing has changed then.
  void release(const SlotRange& range);

  int64_t capacity() const { return capacity_; }
  int64_t total_free() const;
  int64_t largest_hole() const;
  std::vector<SlotRange> reserved() const;  // ascending
  std::vector<SlotRange> holes() const;     // ascending

 private:
  int64_t capacity_;
  std::map<int64_t, int64_t> reserved_;  // begin -> size
};

}  // namespace lesson02
