#pragma once

// The pictures: each draws a plain view that a page has filled from its lesson's classes. A hue is
// the index of a sequence; the palette (viz/palette.h) gives it a colour that the colour-blind can
// tell from its neighbours.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "viz/names.h"
#include "viz/page.h"
#include "viz/parts.h"
#include "viz/ui.h"

namespace viz {

/// Returns the token under the mouse.
std::optional<int> block_table(Ui& ui, const std::string& name, const TableView& view);

/// Cells of a pool: hue bar, reference count in the corner, fill level. Hover: id, owners, tokens,
/// slots. Returns the id under the mouse.
std::optional<int32_t> pool_grid(Ui& ui, const std::string& name, const PoolView& view);

/// Those that have a label, as big figures with it below, in one row.
void counters(Ui& ui, const std::vector<Counter>& view);

/// Tokens as chips in order, text inside; some marked.
struct TokenView {
  std::string text;
  int hue = 0;
  float strength = 1;  // 0..1: how strongly it is coloured
  std::string tooltip;
};
std::optional<int> token_row(Ui& ui, const std::string& name, const std::vector<TokenView>& view);

}  // namespace viz
