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

/// Small cells in rows: a row for each step, a column for each token.
struct StepGridView {
  struct Kind {
    std::string name;  // in the legend and the tooltips
    int hue = 0;
    float strength = 1;
  };
  struct Row {
    std::string label;
    std::vector<int> cells;  // kinds
  };
  std::vector<Kind> kinds;
  std::vector<std::string> columns;  // for the tooltips: what token it is
  std::vector<Row> rows;
};
void step_grid(Ui& ui, const std::string& name, const StepGridView& view);

/// One block, wide: its slots with their tokens, one of them marked.
struct SlotsView {
  int32_t block_id = 0;
  int hue = 0;
  int filled = 0;
  std::vector<std::string> tokens = {};  // [block_size], empty: free, or not known
  std::optional<int> marked = {};
};
void slots(Ui& ui, const std::string& name, const SlotsView& view);

/// Blocks of a sequence in order, each with its text and the hash that names it, joined by arrows.
struct ChainView {
  enum class Mark { kNone, kHit, kWrong };
  struct Link {
    int32_t block_id = 0;
    std::string text;  // of its tokens
    std::string hash;
    std::string tooltip;
    Mark mark = Mark::kNone;
  };
  SequenceView sequence;
  std::vector<Link> links;
};
void chain(Ui& ui, const std::string& name, const ChainView& view);

/// Values as bars from one baseline, as wide as the room; hover: the number.
struct BarsView {
  std::vector<float> values;
  std::vector<std::string> names;  // for the tooltips
  int hue = 0;
  float height = 60;  // points
};
void bars(Ui& ui, const std::string& name, const BarsView& view);

/// Values as a row of colours, blue below zero and orange above; hover: the number. `largest` is
/// the magnitude of the strongest colour.
struct HeatRowView {
  std::string label;
  std::vector<float> values;
  float largest = 1;
};
void heat_row(Ui& ui, const std::string& name, const HeatRowView& view);

/// Pieces of a whole in order, some done, one current: tiles within groups.
struct PiecesView {
  struct Piece {
    std::string label;
    std::string tooltip;
    int group = 0;  // a gap stands between groups
  };
  std::vector<Piece> pieces;
  int done = 0;      // pieces before this one are done
  int current = -1;  // drawn marked
};
void pieces(Ui& ui, const std::string& name, const PiecesView& view);

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
