#pragma once

// The pages that were built, in the order of the lessons. Written by viz/CMakeLists.txt.

#include <vector>

#include "viz/page.h"

namespace viz {
const std::vector<MakePage>& page_makers();
}  // namespace viz
