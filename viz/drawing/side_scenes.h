#pragma once

// The counters of a page, its films, and the sentence of the one that plays, as pictures.

#include <string>
#include <vector>

#include "viz/drawing/scene.h"
#include "viz/page.h"
#include "viz/shell/scenario.h"

namespace viz {

constexpr float kSidePad = 12;  // points, within the side column

/// The counters that have a label, in a few columns: the room that they need in this width.
Room figures_room(float width, const Page& page);
Scene figures_of(const Page& page, const Room& room);

/// Titles in boxes "film/NAME", in a row or in a column. The letters of all have one size.
/// `scenarios`: of one page.
Scene films_of(const std::vector<Scenario>& scenarios, const Room& room, bool in_column);

/// Words as large as they fit.
Scene sentence_of(const std::string& words, Ink ink, const Room& room);

}  // namespace viz
