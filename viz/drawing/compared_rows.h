#pragma once

// Rows of cells against a row that is wanted: what differs is struck out.

#include <functional>
#include <string>
#include <vector>

#include "viz/drawing/scene.h"

namespace viz {

inline constexpr size_t kMaxCompared = 16;  // cells of a row that are shown

struct ComparedRow {
  std::string label;                                  // to the left of it
  std::string lead;                                   // its first cell, a wider one
  std::vector<std::string> cells;                     // kMaxCompared of them are shown
  Paint fill = {};                                    // of the cells
  std::vector<std::vector<std::string>> others = {};  // the cells of the rows that follow
  float begin = 0, step = 0;  // in seconds: when it comes, and how long after it each cell
};
/// "id/label", "id/after" for the first cell, cells "id/0"; their texts "id/0/token". `against`:
/// null, or the row that is wanted. Where not all words fit, only those that differ in some row are
/// drawn. when(begin, length): a part of the motion, from seconds.
void compared_row(Scene& scene, const std::string& id, const Place& at, const ComparedRow& row,
                  const ComparedRow* against, const std::function<Span(float, float)>& when);
/// "id/verdict", to the right of the row.
Shape& verdict(Scene& scene, const std::string& id, const Place& at, const std::string& text,
               Ink ink);

}  // namespace viz
