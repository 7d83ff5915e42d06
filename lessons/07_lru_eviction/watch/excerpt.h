#pragma once

// A part of a large cache, for a picture that has no room for all of it: what has just come, then
// something of many prefixes, the newest and the longest first.

#include <cstdint>
#include <vector>

#include "event_mirror.h"

namespace lesson07::watch {

struct Excerpt {
  struct Row {
    Chain chain;
    std::vector<size_t> shown;  // places in chain.blocks, in order
  };
  std::vector<Row> rows;     // in the order in which their last blocks were stored
  int64_t num_prefixes = 0;  // that stand, all of them
  int64_t num_more = 0;      // blocks that no row shows
  int64_t num_cut = 0;       // prefixes that have such blocks
};

/// At most `room` blocks; one that stands in several rows counts in each. Those that were stored
/// from number `since` on (MirroredBlock::stored_at) are taken first, the newest of them before
/// the others.
Excerpt excerpt(const EventMirror& mirror, int64_t since, size_t room);

}  // namespace lesson07::watch
