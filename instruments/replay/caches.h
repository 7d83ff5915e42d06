#pragma once

// A pool of blocks on which a trace is played under one policy, one request after the other. Each
// request finds the longest run of its first blocks that the pool has, computes the rest, and holds
// all of its full blocks until it ends.

#include <cstdint>
#include <memory>
#include <span>

#include "instruments/replay/trace/next_uses.h"

namespace replay {

enum class Victim {
  kLru,      // the block that was used longest ago: lesson 07's BlockPool, queue and index
  kFifo,     // the block that was stored longest ago
  kRandom,   // any
  kOptimal,  // the block whose next use is the farthest (Belady): no policy finds more
};
inline constexpr const char* kVictimNames[] = {"lru", "fifo", "random", "optimal"};

struct Counts {
  int64_t asked = 0;     // full blocks of all requests
  int64_t found = 0;     // blocks found in the cache
  int64_t evicted = 0;   // blocks whose content was forgotten
  int64_t too_long = 0;  // requests with more full blocks than the pool; the rest was cut off
  /// Blocks looked up, pinned, taken, evicted, stored and freed: the sum of these counts.
  int64_t operations = 0;

  double hit_rate() const {
    return asked > 0 ? static_cast<double>(found) / static_cast<double>(asked) : 0;
  }
};

class Cache {
 public:
  explicit Cache(int num_blocks) : num_blocks_(num_blocks) {}
  virtual ~Cache() = default;
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  /// Runs the next request of the trace. Returns the number of its first blocks that were found.
  int64_t run(std::span<const uint64_t> ids);
  int num_blocks() const { return num_blocks_; }
  const Counts& counts() const { return counts_; }
  /// Throws std::logic_error if an invariant between requests is broken.
  virtual void check() const = 0;

 protected:
  /// `ids`: at most num_blocks. `position` counts the blocks of the trace before this request.
  virtual int64_t serve(std::span<const uint64_t> ids, int64_t position) = 0;
  void count_evicted(int64_t evicted) { counts_.evicted = evicted; }

 private:
  int num_blocks_;
  int64_t position_ = 0;
  Counts counts_;
};

/// `next_uses` is for kOptimal alone, and must outlive the cache.
std::unique_ptr<Cache> make_cache(Victim victim, int num_blocks, uint64_t seed,
                                  const NextUses* next_uses);

}  // namespace replay
