#pragma once

// Progress of requests: a request's tokens so far, its last word, and its part in each pass.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "viz/drawing/parts.h"

namespace viz {

/// Tokens of a request.
struct Progress {
  int num_prompt = 0;
  int num_generated = 0;
  int max_generated = 0;
  int num_computed = 0;  // with K and V
};
/// Prompt and answer as one bar, "A/bar": what is known is framed ("A/known"), what has K and V is
/// filled ("A/prompt", "A/decode"). The bar comes `when`, and its parts change when it `grows`.
void progress(Scene& scene, const SequenceView& request, const Progress& tokens, const Place& at,
              Span when, Span grows);

/// The last lines of a text that there is room for: "ID 3", "ID 4", ...
void last_lines(Scene& scene, const std::string& id, const Place& at, const std::string& text,
                Span when);

/// The last passes, a column for each.
struct PassColumns {
  Place at = {};
  size_t first = 0, end = 0;  // passes that are seen
  float w = 0;                // width of a column
  /// Passes begin to end - 1, in a row of height h.
  Place bar(size_t begin, size_t end, float y, float h) const;
};
/// Columns for the last `total` passes: at least `min`, at most `max`, a power of two times `min`.
PassColumns pass_columns(const Place& at, size_t total, size_t min, size_t max);

/// A request's state in each pass; no value for a pass without it. kFree: it waited, a thin line.
using PassMarks = std::vector<std::optional<State>>;
/// Passes alike are one bar: "A/run 0", "A/run 1", ...
void pass_row(Scene& scene, const SequenceView& request, const PassMarks& marks,
              const PassColumns& columns, float y, float h, Span when);

/// Room for the names of all requests, beside their rows.
template <class Requests>
float names_width(const Requests& requests) {
  float width = 0;
  for (const auto& request : requests) width = std::max(width, text_width(request.name, 12) + 6);
  return width;
}
/// A row for each request that has a name, a hue and marks, with its name "A/row" to the left of
/// the columns. Returns where they end.
template <class Requests>
float pass_rows(Scene& scene, const Requests& requests, const PassColumns& columns, float left,
                float y, float pitch, Span when) {
  for (const auto& request : requests) {
    if (pitch >= 10) {
      scene.label(request.name + "/row", {columns.at.x - left, y, left, pitch}, request.name,
                  {.size = std::min(12.0f, 0.8f * pitch)});
    }
    pass_row(scene, request, request.marks, columns, y, pitch - 2, when);
    y += pitch;
  }
  return y;
}

}  // namespace viz
