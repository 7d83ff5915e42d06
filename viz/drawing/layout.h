#pragma once

// Faults in the picture of a page, measured, so that a test can demand that there are none.

#include <string>
#include <vector>

#include "viz/drawing/palette.h"
#include "viz/drawing/scene.h"

namespace viz {

/// Faults that make a picture hard to read, each with its ids: texts that are cut, that
/// lie on one another, on an edge or beyond the room; boxes that are neither nested nor apart (but
/// for shapes that may lie over others); too little contrast, in the dark or the light theme; an id
/// that is there twice. At most 20.
std::vector<std::string> layout_faults(const Scene& scene);

/// Lists the marks of boxes that the picture's legend has no sample of: patterns, dashed edges, the
/// edges of errors and of changes, bars at the foot. Lists glyphs that their box contradicts, too.
std::vector<std::string> unexplained_marks(const Scene& scene);

/// Of two colours without transparency, 1 to 21, as WCAG 2 defines it.
double contrast(Colour a, Colour b);

class Page;
/// The same in windows of many sizes, and a picture that leaves most of the window empty.
std::vector<std::string> layout_faults(Page& page);

}  // namespace viz
