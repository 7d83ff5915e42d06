#pragma once

// The counters of a page and the sentence of its scenario, as pictures.

#include <string>

#include "viz/drawing/scene.h"
#include "viz/page.h"

namespace viz {

constexpr float kSidePad = 12;  // points, within the side column

/// The counters that have a label, in two or three columns: the room that they need in the side
/// column.
Room figures_room(const Place& side, const Page& page);
Scene figures_of(const Page& page, const Room& room);

/// Words as large as they fit.
Scene sentence_of(const std::string& words, Ink ink, const Room& room);

}  // namespace viz
