#pragma once

// The pages that were built: in the order of the lessons (viz/CMakeLists.txt writes that list),
// then those that belong to no lesson.

#include <memory>
#include <vector>

#include "viz/page.h"

namespace viz {
std::vector<std::unique_ptr<Page>> make_pages(const PageContext& context);
}  // namespace viz
