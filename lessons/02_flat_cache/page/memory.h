#pragma once

// What the page of lesson 02 is about, without a picture: slabs of a FlatKvCache, and reservations
// in a ReservationArena.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/reservation_arena.h"
#include "flat_kv_cache.h"
#include "viz/names.h"

namespace lesson02 {

/// A FlatKvCache of a very small model: its K and V are really there, and nobody reads them.
class SlabSimulator {
 public:
  SlabSimulator(int slabs, int slots);

  const FlatKvCache& cache() const { return cache_; }
  // Each says what happened.
  std::string append(int slab, int num_tokens);
  std::string clear(int slab);
  /// Why n more tokens cannot be appended; empty: they can.
  std::string why_not_append(int slab, int num_tokens) const;
  /// Why the slab cannot be cleared; empty: it can.
  std::string why_not_clear(int slab) const;

 private:
  FlatKvCache cache_;
};

/// Requests that each reserve just what they need, by name. What fits nowhere waits; whenever slots
/// are given back, those that wait are tried again, in order, until one still does not fit.
class Reservations {
 public:
  static constexpr int64_t kCapacity = 4096;
  struct Reservation : viz::SequenceView {
    int64_t size = 0;
    std::optional<SlotRange> range = {};  // none: it waits
  };
  /// One search for a hole, for who was waiting then or came just then.
  struct Search {
    std::string name;
    std::vector<SlotRange> too_small;    // holes that it went by
    std::optional<SlotRange> hole = {};  // where it is now, or a part of it
  };

  std::string reserve(const std::string& name, int64_t size);
  std::string release(const std::string& name);

  const ReservationArena& arena() const { return arena_; }
  const viz::NamedList<Reservation>& all() const { return all_; }
  /// Null: nobody waits.
  const Reservation* first_waiting() const;
  int64_t num_waiting() const {
    return std::ranges::count_if(all_, [](auto& one) { return !one.range; });
  }
  /// Those of the last command, in order.
  const std::vector<Search>& searches() const { return searches_; }
  /// Whom the last command released; empty: nobody.
  const std::string& released() const { return released_; }

 private:
  std::string search(const std::string& name);

  ReservationArena arena_{kCapacity};
  viz::NamedList<Reservation> all_{"reservation", 26};
  std::vector<Search> searches_;
  std::string released_;
};

}  // namespace lesson02
