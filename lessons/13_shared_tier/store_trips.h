#pragma once

// Trips to the store. They are made on a thread of their own.

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "block_store.h"
#include "lessons/11_host_tier/host_blocks.h"

namespace lesson13 {

using lesson11::HostBlocks;

/// A request's blocks, in the order of its tokens. First they are only looked up; with host blocks
/// to receive them they are fetched.
struct Fetch {
  int64_t request = 0, arrival = 0;
  std::vector<BlockName> names;
  std::vector<int32_t> tokens;         // [names, block_size]
  std::vector<int32_t> host_ids = {};  // [names], or none
  bool wants_digests = false;

  // The answer.
  size_t num_found = 0;                  // of a lookup
  bool unreachable = false;              // the lookup had no answer
  std::vector<uint64_t> checksums = {};  // of the blocks that came whole, the first ones
  std::vector<Digest> digests = {};      // of their contents, if they are wanted
  int num_damaged = 0;                   // 1 if the block after them was damaged
  double seconds = 0;
};

/// A block of the host that goes to the store.
struct Put {
  BlockName name{};
  std::vector<int32_t> tokens;
  int32_t host_id = 0;
  std::optional<Digest> stored = {};  // of the content that the store had under this name

  enum class Outcome {
    kPut,
    kNotPut,   // the store does not answer, or has no room
    kDamaged,  // it changed on its way to the host, and was not put
  };
  Outcome outcome = Outcome::kNotPut;
  bool poisoned = false;  // the store had other content: it has been replaced
};

using Trip = std::variant<Fetch, Put>;

class StoreTrips {
 public:
  /// Borrows all three. `checksums` [host ids] are those that the device has made.
  StoreTrips(BlockStore& store, const HostBlocks& host, const uint64_t* checksums)
      : store_(store), host_(host), checksums_(checksums) {}

  /// How values look from now on. No trip is in flight.
  void set_format(const ValueFormat& format) { format_ = format; }
  /// Makes the trip, and fills in its answer.
  void make(Trip& trip) const;

 private:
  void make(Fetch& fetch) const;
  void make(Put& put) const;

  BlockStore& store_;
  const HostBlocks& host_;
  const uint64_t* checksums_;
  ValueFormat format_;
};

}  // namespace lesson13
