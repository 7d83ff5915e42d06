#pragma once

// The picture of the page: block tables above, the pool below, a line from each table entry to its
// block. page_scene.cpp: what stands where; page_motion.cpp: how it got there.

#include <string>
#include <utility>
#include <vector>

#include "block_manager.h"
#include "viz/parts.h"

namespace lesson05 {

/// A block table, as it is shown.
struct ShownTable : viz::TableView {
  std::string origin;   // whose table it continues: its own, or its parent's
  std::string text;     // the last words of a live sequence
  std::string waiting;  // a token that is drawn and has no slot yet
};

/// What the page shows at a moment.
struct Shown {
  viz::PoolView pool;
  std::vector<ShownTable> tables;
  std::vector<BlockCopy> copies;  // made by the last command
  // Of the last command if it was refused: why, and who would have written.
  std::string refusal;
  std::vector<std::pair<std::string, std::string>> refused;  // a name, and its token

  /// Null: there is none.
  const ShownTable* find(const std::string& name) const;
};

viz::Scene sharing_scene(const Shown& now, const viz::Room& room, const std::string& selected);
/// Adds how it got there from what was shown before.
void add_motion(viz::Scene& scene, const Shown& before, const Shown& now);

}  // namespace lesson05
