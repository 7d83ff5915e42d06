#include "viz/drawing/chains.h"

#include <fmt/format.h>

#include <algorithm>

#include "viz/drawing/text_room.h"

namespace viz {
namespace {

using Parents = std::span<const std::optional<size_t>>;

/// Rows of the subtree of a node, which begins in `row`.
int place_node(Parents parents, size_t node, int column, int row, Forest& forest) {
  forest.cells[node] = {column, row};
  forest.columns = std::max(forest.columns, column + 1);
  int rows = 0;
  for (size_t i = 0; i < parents.size(); ++i) {
    if (parents[i] == node) rows += place_node(parents, i, column + 1, row + rows, forest);
  }
  return std::max(rows, 1);
}

}  // namespace

Forest forest_of(Parents parents) {
  Forest forest{.cells = std::vector<Forest::Cell>(parents.size())};
  for (size_t i = 0; i < parents.size(); ++i) {
    if (!parents[i]) forest.rows += place_node(parents, i, 0, forest.rows, forest);
  }
  return forest;
}

void card_hash(Scene& scene, const std::string& id, const Place& card, float gap, bool down,
               const std::string& hash, const std::vector<Place>& next, const Span& when) {
  if (hash.empty()) return;
  const float x = down ? card.x + card.w / 4 : card.right() + 1,
              y = down ? card.bottom() + 1 : card.middle_y();
  for (size_t i = 0; i < next.size(); ++i) {
    scene
        .line(fmt::format("{}/arrow {}", id, i), x, y,
              down ? next[i].x + next[i].w / 4 : next[i].x - 1,
              down ? next[i].y - 1 : next[i].middle_y(), paint(Ink::kDim))
        .pointing()
        .during(when);
  }
  const Place at =
      down ? Place{x + 6, y + 4, 0.75f * card.w - 6, 14} : Place{x + 2, y - 17, gap - 8, 14};
  if (text_width(hash, readable(scene.room(), 7)) > at.w || card.h < 24) return;
  scene.label(id + "/hash", at, hash, {.size = 12}, 7).during(when).tip("the end of its hash");
}

void card_holders(Scene& scene, const Place& card, int32_t block,
                  const std::vector<TableView>& tables, const Span& when) {
  float x = card.right() - 5;
  for (const TableView& table : tables) {
    const auto entry = std::ranges::find(table.block_ids, block);
    const std::string& name = table.sequence.name;
    const float w = text_width(name, 12) + 8;
    if (entry == table.block_ids.end() || x - w < card.middle_x()) continue;
    x -= w + 2;
    const std::string id =
        fmt::format("{}/entry {}", name, std::distance(table.block_ids.begin(), entry));
    const Place place{x, card.y + 4, w, 15};
    scene.box(id, place, soft(table.sequence.hue), full(table.sequence.hue))
        .selecting(name)
        .during(when)
        .radius = 3;
    scene.label(id + "/name", place, name, {.size = 12, .align = Align::kCentre}).during(when);
  }
}

}  // namespace viz
