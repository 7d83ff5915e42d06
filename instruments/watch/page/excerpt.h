#pragma once

// A part of a large cache, for a picture without room for all of it: the blocks that were just
// stored, then some blocks of many prefixes, the newest and the longest first.

#include <cstdint>
#include <vector>

#include "instruments/watch/event_mirror.h"

namespace watch {

struct Excerpt {
  struct Row {
    Chain chain;
    std::vector<BlockName> blocks;  // of the chain, from the first on
    std::vector<size_t> shown;      // indices into blocks, ascending
  };
  std::vector<Row> rows;     // in the order in which their last blocks were stored
  int64_t num_prefixes = 0;  // in the whole cache
  int64_t num_more = 0;      // blocks that no row shows
  int64_t num_cut = 0;       // prefixes with such blocks
};

/// At most `room` blocks. A block in several rows counts in each. Blocks stored from number `since`
/// on (MirroredBlock::stored_at) are taken first, the newest before the others.
Excerpt excerpt(const EventMirror& mirror, int64_t since, size_t room);

}  // namespace watch
