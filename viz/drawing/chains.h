#pragma once

// Chains of blocks that may begin alike: a forest of cards, each with its words, the hash that goes
// into the next one, and the tables that hold it.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "viz/drawing/parts.h"

namespace viz {

/// Places of the nodes of a forest: each in the column after its parent's, its first child in its
/// own row.
struct Forest {
  struct Cell {
    int column = 0, row = 0;
  };
  std::vector<Cell> cells;
  int columns = 0, rows = 0;
};
/// `parents`: of each node; none for a root. A parent is before its children.
Forest forest_of(std::span<const std::optional<size_t>> parents);

/// "id/hash" in the gap to the right of a card, or below it, and an arrow "id/arrow 0" to each card
/// that comes next. Nothing if there is no hash.
void card_hash(Scene& scene, const std::string& id, const Place& card, float gap, bool down,
               const std::string& hash, const std::vector<Place>& next, const Span& when);
/// In the corner of a block's card the tables that hold it: "A/entry 2" with "A/entry 2/name". A
/// click selects the sequence.
void card_holders(Scene& scene, const Place& card, int32_t block,
                  const std::vector<TableView>& tables, const Span& when);

}  // namespace viz
