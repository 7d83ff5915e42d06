#pragma once

// The picture of a cache: a tile is a block, with its words. It is in the queue above, or below
// in a table, and moves from the one to the other.

#include <cstdint>
#include <string>
#include <vector>

#include "viz/drawing/parts.h"

namespace lesson07 {

/// The state that a picture shows.
struct Shown {
  viz::PoolView pool;  // with the words of blocks that are in a table or can be found
  std::vector<int32_t> queue;
  std::vector<viz::TableView> tables;
  std::vector<int> num_found;          // blocks of each table that its lookup found
  int max_queued = 0;                  // places in the queue; 0 means one for each block
  std::vector<std::string> cut = {};   // of tables: "6 of 2,000 blocks" if not all are shown
  std::vector<std::string> more = {};  // what the picture leaves out: a long text, then a short one
  std::string front = "\u2190 taken next: used longest ago", back = "freed last \u2190";
  std::string none = "no block is free";  // in an empty queue
};

/// The picture of `now`, with the motion that leads there from `before`. `reason` is the note
/// between the queue and the tables. `legend` has no entry for shared blocks: it is added.
viz::Scene queue_scene(const viz::Room& room, const Shown& before, const Shown& now,
                       const std::string& reason, std::vector<viz::LegendEntry> legend);

}  // namespace lesson07
