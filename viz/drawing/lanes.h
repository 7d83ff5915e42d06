#pragma once

// Parts of pages on which requests have lanes: the ribbon with a request's name, the reason for
// what happens, bars that compare numbers, and blocks whose slots hold words.

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "viz/drawing/parts.h"
#include "viz/drawing/scene.h"

namespace viz {

constexpr float kHeading = 18;  // height of heading()

/// The i-th of `count` parts of a motion that begin one after the other.
inline Span in_turn(Span all, std::integral auto i, std::integral auto count) {
  const float each = (all.end - all.begin) / (static_cast<float>(count) + 1);
  const float begin = all.begin + each * static_cast<float>(i);
  return {begin, begin + 2 * each};
}

/// The note "note" in a line of the picture, below the shape that it is about. Its arrow is left
/// out if it would cross a box.
void reason(Scene& scene, const Place& line, const std::string& words, const std::string& about,
            Span when);

/// "request A" and "request A/name": `words` on the request's hue. A click selects the request.
void ribbon(Scene& scene, const SequenceView& request, const Place& at, bool is_selected,
            const std::string& words);

/// "request A", with "request A/name" and "request A/doing". A click selects the request. Returns
/// the room below.
Place request_card(Scene& scene, const SequenceView& request, const Place& at, State state,
                   bool is_selected, const std::string& doing, const std::string& tooltip,
                   Span when = {});

/// A block without its slots.
struct NumberedBlock {
  int32_t id = 0;
  State state = State::kFree;
  std::vector<int> hues = {};  // of the requests that hold it
  std::string tooltip = {};    // after "block 7"
  std::string badge = {};      // below the number, if there is room
};
/// "block 7", its number "block 7/id", and "block 7/badge". A block that several requests hold has
/// a band for each: "block 7/hue 1".
void numbered_block(Scene& scene, const NumberedBlock& block, const Place& at, Span when = {});

/// Tokens as chips in a request's hue: "ID 0", ...
void words(Scene& scene, const std::string& id, const Place& at, std::span<const int32_t> tokens,
           const std::function<std::string(int32_t)>& word_of, int hue, float size);

/// A number as a bar of its parts, between a name and a total.
struct Bar {
  struct Part {
    std::string id;
    int64_t size = 0;
    State state = State::kInUse;
    int hue = -1;
    std::string tooltip = {};
    std::string text = {};  // in it, if there is room
  };
  std::string id;
  std::string name = {};
  std::string total = {};
  float name_width = 100, total_width = 76;
  std::vector<Part> parts = {};
};
/// "id/name", the parts, "id/total". Parts of size `longest` together have the whole width.
void bar(Scene& scene, const Bar& bar, const Place& at, int64_t longest, Span when = {});

/// Blocks of one size whose slots are beside their number, in a row, so that words fit. They stand
/// in rows of `columns`.
struct WordBlocks {
  int block_size = 1, columns = 1;
  float w = 0, h = 0, slot = 0;
  static constexpr float kGap = 5, kPad = 3;
  static constexpr float kLeastWord = 7;  // points; smaller words are not drawn

  float pitch() const { return h + kGap; }
  /// Block `index` of a table whose first block is in the corner.
  Place block(int index, const Place& corner) const;
  Place slot_of(int position, const Place& corner) const;
  /// "block 7" and "block 7/id", in the request's hue.
  void draw(Scene& scene, int32_t id, const Place& at, int hue, const std::string& tooltip,
            Span when) const;
  /// A slot "ID" and, if it can be read, the word in it, "ID/token": dim if it is only a guess
  /// (kFree), struck out if it was a wrong one (kEvicted). No state: nothing is in it. Returns
  /// the word, or null.
  Shape* draw_slot(Scene& scene, const std::string& id, const Place& at, std::optional<State> state,
                   int hue, const std::string& word, Span when = {}) const;
};
/// As large as the room allows: `rows_in(columns)` rows, and `heads` points for all that is above
/// them.
WordBlocks fit_words(const Place& room, int block_size, float heads,
                     const std::function<int(int columns)>& rows_in);

}  // namespace viz
