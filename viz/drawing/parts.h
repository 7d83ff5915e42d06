#pragma once

// Parts that scenes of several lessons are made of: grids that fill their room, blocks with their
// slots, block tables, token chips, notes, a legend. Each says which ids its shapes have, so that
// pages can hang motion on them.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "viz/drawing/scene.h"
#include "viz/names.h"

namespace viz {

/// States, each with one look on all pages: an edge, a pattern, a glyph; never a hue. Hatched is
/// what waits for its content, dotted what can be found, crossed what was taken away or is wrong.
enum class State : uint8_t {
  kFree,       // dashed edge, empty
  kInUse,      // plain, in its sequence's hue
  kReserved,   // hatched; in a sequence's hue with a dashed edge: taken, nothing in it yet
  kCached,     // dotted: its content can be found; of a pool's block: and it is free
  kFound,      // a tick and a strong edge: a lookup found it
  kPrompt,     // lined, in its sequence's hue
  kDecode,     // plain, in its sequence's hue; a legend's sample is full of it
  kPreempted,  // crossed, dashed edge
  kEvicted,    // crossed, no hue
  kSliding,    // lined, too: of a layer with a window
};
/// Fill, edge and pattern of a box in this state. `hue` < 0: it is no sequence's.
Shape& dress(Shape& box, State state, int hue = -1);
/// "\u2713 " before the text of a state that has a glyph; else empty.
std::string glyph(State state);
/// A bar at the foot of a box: what is in it stands a second time elsewhere.
Shape& twin_bar(Scene& scene, std::string id, const Place& box);
/// Samples of looks that the scene has so far, with their names in a row: of the first five entries
/// that it has, or of all if it has none. "legend/1" is always the second entry's. An entry without
/// a hue is drawn in the first one if sequences' things can be in its state; kFree, kReserved and
/// kEvicted have none, and kNoHue is for a page where the state belongs to no sequence.
constexpr int kNoHue = -2, kMostSamples = 5;
struct LegendEntry {
  State state;
  std::string name;
  int hue = -1;
  Ink edge = Ink::kNone;  // of a mark that is no state
  bool has_twin = false;
};
void legend(Scene& scene, const Place& at, const std::vector<LegendEntry>& entries);

/// Equal cells in rows, as large as the room allows.
struct Grid {
  Place area = {};  // of all cells
  int columns = 1;
  float w = 0, h = 0, gap = 0;
  Place cell(int index) const;
};
struct CellShape {
  float gap = 6;
  float flattest = 1, widest = 1.6f;   // width by height
  float most_w = 1e6f, most_h = 1e6f;  // no larger than this
  int round_to = 1;                    // more columns are a multiple of it, or fill all rows
  bool full_rows = false;              // the last row is as long as the others
};
Grid fit(int count, const Place& room, const CellShape& shape);

struct BlockView {
  int32_t id = 0;
  int ref_cnt = 0;                       // 0: free
  int filled = 0;                        // slots that hold a token
  std::vector<int> owners = {};          // hues; the block is in all of them
  std::string badge = {};                // short text in the lower corner, may be empty
  std::vector<std::string> tokens = {};  // text of the tokens in its slots, may be empty
  std::optional<State> state = {};       // else: free or in use by its ref_cnt
  bool changed = false;                  // by the last command
};

/// A sequence's block table: logical blocks in order.
struct TableView {
  SequenceView sequence;
  std::vector<int32_t> block_ids = {};
  std::vector<int> ref_cnts = {};
  int num_tokens = 0;
  int block_size = 0;
};

struct PoolView {
  int block_size = 0;
  std::vector<SequenceView> sequences = {};  // for names in tooltips, by hue
  std::vector<BlockView> blocks = {};        // with ids in a row
  bool show_refs = true;                     // before lesson 05 there is nothing to count

  BlockView& at(int32_t id) { return blocks.at(static_cast<size_t>(id - blocks.front().id)); }
  /// A sequence whose tokens fill these blocks in order. Its table, as it is shown.
  TableView add(const SequenceView& sequence, std::span<const int32_t> block_ids, int num_tokens);
  /// The same, and word_of(t), the text of token t, in each slot that has none yet.
  template <class WordOf>
  TableView add(const SequenceView& sequence, std::span<const int32_t> block_ids, int num_tokens,
                WordOf word_of) {
    for (int t = 0; t < num_tokens; ++t) {
      std::vector<std::string>& tokens = at(block_ids[static_cast<size_t>(t / block_size)]).tokens;
      if (std::ssize(tokens) == t % block_size) tokens.push_back(word_of(t));
    }
    return add(sequence, block_ids, num_tokens);
  }
};
/// Blocks first, first + 1, .. of a lesson's pool, which nothing is said of but their counts.
template <class RefCount>
PoolView pool_view(int block_size, int32_t first, int num_blocks, RefCount ref_cnt) {
  PoolView view{.block_size = block_size};
  for (int32_t id = first; id < first + num_blocks; ++id) {
    view.blocks.push_back({.id = id, .ref_cnt = ref_cnt(id)});
  }
  return view;
}

/// One block: "block 7", its number "block 7/id", its count "block 7/ref", "block 7/badge"; if
/// there is room for them its slots "slot 7/3" and their tokens "slot 7/3/token", else its fill
/// level. A slot that several sequences hold has a band for each: "slot 7/3/hue 1".
void block(Scene& scene, const PoolView& pool, const BlockView& block, const Place& at);
/// All blocks, as large as the room allows; from small cells on a heat map. Returns the grid: where
/// block i of the view is.
Grid pool(Scene& scene, const PoolView& view, const Place& room);
/// Places of a block's slots within a place, at least `flattest` times as wide as tall.
Grid slots_in(const Place& at, int count, float flattest = 0.9f);
/// Tooltip of a block.
std::string described(const PoolView& pool, const BlockView& block);

/// A row: the name "A/name", entries "A/entry 0" with the block's number "A/entry 0/id" and, if it
/// is shared, a bar below. An entry lights its block. Too many for the room: runs of block numbers.
/// Returns the height that was used.
float table(Scene& scene, const TableView& view, const Place& at);

struct Chip {
  std::string text;
  int hue = -1;
  State state = State::kInUse;
  std::string tooltip = {};
};
/// Tokens in order, in lines, each as wide as its text: boxes "id 0", texts "id 0/token". If they
/// do not fit, the last ones are shown. Returns the height that was used.
float chips(Scene& scene, const std::string& id, const Place& at, const std::vector<Chip>& chips,
            float least = 13);

/// A bubble with a reason, and an arrow from it to a shape that is in the scene already (none:
/// empty). "id", "id/text 0", "id/arrow". It comes `when`. Returns its place.
Place note(Scene& scene, const std::string& id, const Place& at, const std::string& text,
           const std::string& points_at = {}, Ink ink = Ink::kMark, Span when = {});
/// Says where to begin where nothing has been done; empty in a text, as a film may begin with it.
Scene empty_scene(const Room& room, std::string_view words);
/// A heading over a part of the scene.
void heading(Scene& scene, const std::string& id, const Place& at, const std::string& text);
/// A number that has changed: what lies between is seen during the motion. Its id has its value:
/// "id 940".
void count_up(Scene& scene, const std::string& id, const Place& at, int64_t from, int64_t to,
              const Type& type, Span when = {});
/// A part of a whole as a horizontal bar: "id" and "id/fill".
void level(Scene& scene, const std::string& id, const Place& at, float part, Paint fill);

}  // namespace viz
