#pragma once

// What the page of lesson 02 is about, without a picture: slabs of a FlatKvCache, and reservations
// in a ReservationArena.

#include <cstdint>
#include <string>

#include "flat_kv_cache.h"
#include "program/reservation_arena.h"
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

/// Requests that each reserve just what they need, by name.
class Reservations {
 public:
  static constexpr int64_t kCapacity = 4096;
  struct Reservation : viz::SequenceView {
    SlotRange range;
  };

  std::string reserve(const std::string& name, int64_t size);
  std::string release(const std::string& name);
  /// Why no such reservation can be made; empty: it can.
  std::string why_not_reserve(const std::string& name, int64_t size) const;

  const ReservationArena& arena() const { return arena_; }
  const viz::NamedList<Reservation>& all() const { return all_; }

 private:
  ReservationArena arena_{kCapacity};
  viz::NamedList<Reservation> all_{"reservation", 26};
};

}  // namespace lesson02
