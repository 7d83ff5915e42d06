#pragma once

// What the page of lesson 02 is about, without a picture: slabs of a FlatKvCache, and reservations
// in a ReservationArena.

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "flat_kv_cache.h"
#include "reservation_arena.h"

namespace lesson02 {

/// A FlatKvCache of a very small model: its K and V are really there, and nobody reads them.
class SlabSimulator {
 public:
  static constexpr int kMaxSlabs = 16;
  static constexpr int kMaxSlots = 8192;

  /// Throws UserError unless 1 <= slabs <= kMaxSlabs and 1 <= slots <= kMaxSlots.
  SlabSimulator(int slabs, int slots);

  const FlatKvCache& cache() const { return cache_; }
  /// num_tokens more tokens in a slab. These throw UserError for a slab that is not there or tokens
  /// that do not fit; nothing has changed then.
  std::string append(int slab, int num_tokens);
  std::string clear(int slab);
  int64_t slots_used() const;
  int64_t slots_reserved() const { return int64_t{cache_.batch()} * cache_.max_seq_len(); }
  /// Why n more tokens do not fit; empty: they do.
  std::string why_not_append(int slab, int num_tokens) const;

 private:
  void check_slab(int slab) const;

  FlatKvCache cache_;
};

/// Requests that each reserve just what they need, by name.
class Reservations {
 public:
  static constexpr int64_t kCapacity = 4096;
  struct Named {
    SlotRange range;
    int hue = 0;
  };

  Reservations() : arena_(kCapacity) {}

  /// Throws UserError if the name is taken or no hole is large enough; nothing has changed then.
  std::string reserve(const std::string& name, int64_t size);
  std::string release(const std::string& name);
  const ReservationArena& arena() const { return arena_; }
  const std::map<std::string, Named>& named() const { return named_; }
  std::string free_name() const;  // the first of A, B, .. that is not in use
  std::string why_not_reserve(int64_t size) const;

 private:
  ReservationArena arena_;
  std::map<std::string, Named> named_;
};

}  // namespace lesson02
