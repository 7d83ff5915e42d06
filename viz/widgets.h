#pragma once

// The pictures: each draws a plain view that a page has filled from its lesson's classes. A hue is
// the index of a sequence; the palette (viz/palette.h) gives it a colour that the colour-blind can
// tell from its neighbours.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "viz/ui.h"

namespace viz {

struct SequenceView {
  std::string name;
  int hue = 0;
};

struct BlockView {
  int32_t id = 0;
  int ref_cnt = 0;                  // 0: free, drawn dim
  int filled = 0;                   // slots that hold a token
  std::vector<int> owners;          // hues; the bar is split among them
  bool highlight = false;           // touched by the last command
  std::string badge;                // short text in the lower corner, may be empty
  std::vector<std::string> tokens;  // text of the tokens in its slots, may be empty
};

/// Cells of a pool: hue bar, reference count in the corner, fill level. Hover: id, owners, tokens,
/// slots. Returns the id under the mouse.
struct PoolView {
  int block_size = 0;
  std::vector<SequenceView> sequences;  // for names in tooltips, by hue
  std::vector<BlockView> blocks;
};
std::optional<int32_t> pool_grid(Ui& ui, const std::string& name, const PoolView& view);

/// A sequence's block table: logical blocks in order, each with its block id and fill.
struct TableView {
  SequenceView sequence;
  std::vector<int32_t> block_ids;
  std::vector<int> ref_cnts;  // empty: not shown
  int num_tokens = 0;
  int block_size = 0;
  std::optional<int> highlight_token;  // its cell and slot are marked
};
/// Returns the token under the mouse.
std::optional<int> block_table(Ui& ui, const std::string& name, const TableView& view);

/// Big figures with names under them, in one row.
struct CounterView {
  std::string name;   // "used"
  std::string value;  // "8 / 64"
  std::string tooltip;
};
void counters(Ui& ui, const std::string& name, const std::vector<CounterView>& view);

/// Tokens as chips in order, text inside; some marked.
struct TokenView {
  std::string text;
  int hue = 0;
  float strength = 1;  // 0..1: how strongly it is coloured
  std::string tooltip;
};
std::optional<int> token_row(Ui& ui, const std::string& name, const std::vector<TokenView>& view);

}  // namespace viz
