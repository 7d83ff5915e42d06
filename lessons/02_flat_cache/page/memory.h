#pragma once

// The state of the page of lesson 02: slabs of a FlatKvCache, and reservations in a
// ReservationArena.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/reservation_arena.h"
#include "flat_kv_cache.h"
#include "viz/names.h"

namespace lesson02 {

/// A FlatKvCache of a very small model: its K and V are allocated, but never read.
class SlabSimulator {
 public:
  SlabSimulator(int slabs, int slots);

  const FlatKvCache& cache() const { return cache_; }
  // Each returns a sentence that says what happened.
  std::string append(int slab, int num_tokens);
  /// Why num_tokens more tokens cannot be appended; empty if they can.
  std::string why_not_append(int slab, int num_tokens) const;

 private:
  FlatKvCache cache_;
};

/// Requests, by name, that each reserve just the slots they need. A request that fits nowhere
/// waits. Whenever slots are given back, the waiting requests are tried again, in order, until one
/// still does not fit.
class Reservations {
 public:
  static constexpr int64_t kCapacity = 4096;
  struct Reservation : viz::SequenceView {
    int64_t size = 0;
    std::optional<SlotRange> range = {};  // no value while it waits
  };
  /// One search for a hole, for a request that was waiting or had just arrived.
  struct Search {
    std::string name;
    std::vector<SlotRange> too_small;    // holes that it passed by
    std::optional<SlotRange> hole = {};  // where it is now, or a part of it
  };

  std::string reserve(const std::string& name, int64_t size);
  std::string release(const std::string& name);

  const ReservationArena& arena() const { return arena_; }
  const viz::NamedList<Reservation>& all() const { return all_; }
  /// Null if no request waits.
  const Reservation* first_waiting() const;
  int64_t num_waiting() const {
    return std::ranges::count_if(all_, [](auto& one) { return !one.range; });
  }
  /// The searches of the last command, in order.
  const std::vector<Search>& searches() const { return searches_; }
  /// The request that the last command released; empty if there is none.
  const std::string& released() const { return released_; }

 private:
  std::string search(const std::string& name);

  ReservationArena arena_{kCapacity};
  viz::NamedList<Reservation> all_{"reservation", 26};
  std::vector<Search> searches_;
  std::string released_;
};

}  // namespace lesson02
