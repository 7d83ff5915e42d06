#pragma once

// The next use of each block of a trace, which the best possible cache would have to know.

#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "instruments/replay/trace/trace_file.h"

namespace replay {

/// Keeps 8 bytes for each full block of each request, in a file without a name that is gone with
/// the object. make() needs memory for each different block.
class NextUses {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  NextUses() = default;
  ~NextUses();
  NextUses(const NextUses&) = delete;
  NextUses& operator=(const NextUses&) = delete;

  /// Reads the whole trace, as long as `go_on(reader)` is true. Throws UserError.
  template <class GoOn>
  void make(TraceReader& reader, const GoOn& go_on) {
    Batch batch;
    LastUses last;
    while (reader.next(batch) && go_on(reader)) add(batch, last);
  }
  /// The position of the next use; positions count the full blocks of the whole trace. kNever means
  /// that the block is not used again.
  int64_t after(int64_t position) const { return *entry(position); }
  int64_t num_uses() const { return num_uses_; }
  int64_t num_different() const { return num_different_; }

 private:
  using LastUses = std::unordered_map<uint64_t, int64_t>;  // id -> its last position so far

  static constexpr int64_t kPiece = int64_t{1} << 20;  // entries that are mapped together
  void add(const Batch& batch, LastUses& last);
  void add_piece();
  int64_t* entry(int64_t position) const {
    return pieces_[static_cast<size_t>(position / kPiece)] + position % kPiece;
  }

  int file_ = -1;
  std::vector<int64_t*> pieces_;
  int64_t num_uses_ = 0;
  int64_t num_different_ = 0;
};

}  // namespace replay
