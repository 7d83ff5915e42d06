#pragma once

// The pages that were built: in the order of the lessons (viz/CMakeLists.txt writes that list),
// then the one that belongs to no lesson.

#include <memory>
#include <vector>

#include "viz/page.h"

namespace viz {
std::vector<std::unique_ptr<Page>> make_pages(const PageContext& context);
/// What a warp wants from memory at once (viz/warp/).
std::unique_ptr<Page> make_warp_page();
}  // namespace viz
