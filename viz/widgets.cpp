#include "viz/widgets.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <string>

#include "viz/drawing.h"
#include "viz/palette.h"

namespace viz {
namespace {

/// A list of names: "A, B, C".
std::string names_of(const std::vector<SequenceView>& sequences, const std::vector<int>& owners) {
  std::vector<std::string> names;
  for (const int owner : owners) {
    const auto found = std::ranges::find(sequences, owner, &SequenceView::hue);
    names.push_back(found == sequences.end() ? "?" : found->name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Sizes of a cell of the pool, in pixels.
struct Cell {
  float size, gap;
  int columns, rows;

  Cell(float s, size_t count, float room) {
    size = (count <= 128 ? 54 : count <= 512 ? 34 : 18) * s;
    gap = (count <= 512 ? 6 : 3) * s;
    columns = std::max(1, static_cast<int>((room + gap) / (size + gap)));
    // Pools mostly have a power of two of blocks: full rows, if that needs little shrinking.
    if (columns >= 5 && columns < 8 && count >= 8 && (room - 7 * gap) / 8 >= 36 * s) {
      columns = 8;
      size = std::min(size, (room - 7 * gap) / 8);
    } else if (columns > 4 && columns < 8 && count % 4 == 0 && count <= 32) {
      columns = 4;
    } else if (columns > 8) {
      columns -= columns % 8;
    }
    rows = (static_cast<int>(count) + columns - 1) / columns;
  }
  float pitch() const { return size + gap; }
};

void draw_cell(ImDrawList& list, const BlockView& block, int block_size, float x, float y,
               const Cell& cell, float s) {
  const float r = std::min(5 * s, cell.size / 5);
  const ImVec2 a(x, y), b(x + cell.size, y + cell.size);
  const bool large = cell.size >= 32 * s;
  list.AddRectFilled(a, b, block.ref_cnt > 0 ? kCellUsed : kCellFree, r);
  if (block.ref_cnt == 0 && block.filled > 0) {  // free, and its content is still there
    list.AddRectFilled(a, b, with_alpha(kDim, 45), r);
    list.AddRect(a, b, with_alpha(kDim, 90), r, 0, s);
  }
  if (block.ref_cnt > 0 && !block.owners.empty()) {
    // The fill level, in the owners' hues side by side.
    const float level = static_cast<float>(block.filled) / static_cast<float>(block_size);
    const float top = y + cell.size * (1 - level);
    const auto n = static_cast<float>(block.owners.size());
    for (size_t i = 0; i < block.owners.size(); ++i) {
      const auto k = static_cast<float>(i);
      const float left = x + cell.size * k / n, right = x + cell.size * (k + 1) / n;
      const Colour colour = hue(block.owners[i]);
      list.AddRectFilled(ImVec2(left, top), ImVec2(right, b.y), with_alpha(colour, 120));
      list.AddRectFilled(ImVec2(left, b.y - std::max(3 * s, cell.size / 9)), ImVec2(right, b.y),
                         colour);
    }
  }
  if (large) {
    text_at(list, x + 5 * s, y + 2 * s, block.ref_cnt > 0 ? kText : with_alpha(kDim, 110),
            std::to_string(block.id));
    if (block.ref_cnt > 0) {
      const float line = block.badge.empty() ? y + cell.size / 2 - 3 * s : y + 2 * s;
      text_right(list, b.x - 5 * s, line, block.ref_cnt > 1 ? kMark : kDim,
                 fmt::format("x{}", block.ref_cnt));
    }
    if (cell.size >= 46 * s) text_at(list, x + 5 * s, b.y - 20 * s, kDim, block.badge);
  }
  if (block.changed) list.AddRect(a, b, kMark, r, 0, 2 * s);
}

void describe(Ui& ui, const PoolView& view, const BlockView& block) {
  std::string text = fmt::format("block {}", block.id);
  if (block.ref_cnt == 0) {
    text += "\nfree: no table holds it";
  } else {
    text += fmt::format("\nheld by {} (ref count {})", names_of(view.sequences, block.owners),
                        block.ref_cnt);
    text += fmt::format("\n{} of {} filled", block.filled, kv::count_of(view.block_size, "slot"));
  }
  text += fmt::format("\nslots {} to {}", int64_t{block.id} * view.block_size,
                      int64_t{block.id} * view.block_size + view.block_size - 1);
  if (!block.tokens.empty()) {
    text += "\n";
    for (const std::string& token : block.tokens) text += "\n" + token;
  }
  ui.tooltip(text);
}

}  // namespace

std::optional<int32_t> pool_grid(Ui& ui, const std::string& name, const PoolView& view) {
  const auto [s, origin, room, list] = canvas(ui);
  const Cell cell(s, view.blocks.size(), room);
  std::optional<int32_t> hovered;
  for (size_t i = 0; i < view.blocks.size(); ++i) {
    const int column = static_cast<int>(i) % cell.columns, row = static_cast<int>(i) / cell.columns;
    const float x = origin.x + static_cast<float>(column) * cell.pitch();
    const float y = origin.y + static_cast<float>(row) * cell.pitch();
    if (scrolled_away(list, y, cell.size)) continue;
    draw_cell(list, view.blocks[i], view.block_size, x, y, cell, s);
    if (mouse_in(ImVec2(x, y), ImVec2(x + cell.size, y + cell.size))) {
      hovered = view.blocks[i].id;
      list.AddRect(ImVec2(x - 1, y - 1), ImVec2(x + cell.size + 1, y + cell.size + 1), kAccent,
                   5 * s, 0, 2 * s);
      describe(ui, view, view.blocks[i]);
    }
  }
  const float width = static_cast<float>(cell.columns) * cell.pitch();
  const float height = static_cast<float>(cell.rows) * cell.pitch();
  ui.region(name, origin.x, origin.y, width, height);
  ImGui::Dummy(ImVec2(std::min(width, room), height));
  return hovered;
}

std::optional<int> block_table(Ui& ui, const std::string& name, const TableView& view) {
  const auto [s, origin, room, list] = canvas(ui);
  const float w = 46 * s, h = 26 * s, gap = 4 * s;
  const Colour colour = hue(view.sequence.hue);
  const std::string title = fmt::format("{}  {}", view.sequence.name, view.num_tokens);
  list.AddRectFilled(ImVec2(origin.x, origin.y + 4 * s), ImVec2(origin.x + 5 * s, origin.y + h),
                     colour, 2 * s);
  text_at(list, origin.x + 12 * s, origin.y + 4 * s, kText, title);
  const float left = 84 * s;
  const int columns = std::max(1, static_cast<int>((room - left + gap) / (w + gap)));
  std::optional<int> hovered;
  const auto n = static_cast<int>(view.block_ids.size());
  for (int i = 0; i < n; ++i) {
    const float x = origin.x + left + static_cast<float>(i % columns) * (w + gap);
    const float y = origin.y + static_cast<float>(i / columns) * (h + gap);
    if (scrolled_away(list, y, h)) continue;
    const int begin = i * view.block_size;
    const int fill = std::min(view.num_tokens - begin, view.block_size);
    const auto index = static_cast<size_t>(i);
    const bool shared = index < view.ref_cnts.size() && view.ref_cnts[index] > 1;
    list.AddRectFilled(ImVec2(x, y), ImVec2(x + w, y + h), kCellFree, 4 * s);
    const float filled = w * static_cast<float>(fill) / static_cast<float>(view.block_size);
    list.AddRectFilled(ImVec2(x, y), ImVec2(x + filled, y + h),
                       with_alpha(colour, shared ? 80 : 170), 4 * s);
    text_at(list, x + 6 * s, y + 4 * s, kText, std::to_string(view.block_ids[index]));
    if (view.highlight_token && *view.highlight_token / view.block_size == i) {
      list.AddRect(ImVec2(x, y), ImVec2(x + w, y + h), kMark, 4 * s, 0, 2 * s);
    }
    if (mouse_in(ImVec2(x, y), ImVec2(x + w, y + h))) {
      hovered = begin;
      ui.tooltip(fmt::format("{}: tokens {} to {} are in block {}{}", view.sequence.name, begin,
                             begin + fill - 1, view.block_ids[index],
                             shared ? fmt::format(", shared by {}", view.ref_cnts[index]) : ""));
    }
  }
  const int rows = std::max(1, (n + columns - 1) / columns);
  const float height = static_cast<float>(rows) * (h + gap);
  take_room(ui, name, origin, room, height);
  return hovered;
}

void counters(Ui& ui, const std::vector<Counter>& view) {
  const auto [s, origin, room, list] = canvas(ui);
  const float font = ImGui::GetFontSize();
  const float h = font * 2.9f + 14 * s, gap = 8 * s;
  float x = origin.x, y = origin.y;
  for (const Counter& counter : view) {
    if (counter.label.empty()) continue;
    const std::string value = counter.text.empty() ? std::to_string(counter.value) : counter.text;
    const float value_width =
        ImGui::CalcTextSize(value.c_str()).x * 1.5f;  // drawn half again as large
    const float w = std::max(value_width, ImGui::CalcTextSize(counter.label.c_str()).x) + 26 * s;
    if (x > origin.x && x + w > origin.x + room) x = origin.x, y += h + gap;
    const ImVec2 a(x, y), b(x + w, y + h);
    list.AddRectFilled(a, b, kPanel, 6 * s);
    list.AddText(figure_font(), font * 1.5f, ImVec2(x + 13 * s, y + 7 * s), kText, value.c_str());
    text_at(list, x + 13 * s, y + 9 * s + font * 1.6f, kDim, counter.label);
    if (ui.region("counters/" + counter.label, a.x, a.y, w, h)) ui.tooltip(counter.tooltip);
    x += w + gap;
  }
  if (x == origin.x) return;  // none has a box
  ImGui::Dummy(ImVec2(std::min(x - origin.x, room), y + h - origin.y));
}

std::optional<int> token_row(Ui& ui, const std::string& name, const std::vector<TokenView>& view) {
  const auto [s, origin, room, list] = canvas(ui);
  const float h = ImGui::GetFontSize() + 8 * s, gap = 3 * s;
  float x = 0, y = 0;
  std::optional<int> hovered;
  for (size_t i = 0; i < view.size(); ++i) {
    const TokenView& token = view[i];
    const float w = ImGui::CalcTextSize(token.text.c_str()).x + 10 * s;
    if (x > 0 && x + w > room) x = 0, y += h + gap;
    const ImVec2 a(origin.x + x, origin.y + y), b(a.x + w, a.y + h);
    x += w + gap;
    if (scrolled_away(list, a.y, h)) continue;
    const auto alpha = static_cast<uint32_t>(40 + 130 * std::clamp(token.strength, 0.0f, 1.0f));
    list.AddRectFilled(a, b, with_alpha(hue(token.hue), alpha), 4 * s);
    text_at(list, a.x + 5 * s, a.y + 4 * s, kText, token.text);
    if (mouse_in(a, b)) {
      hovered = static_cast<int>(i);
      if (!token.tooltip.empty()) ui.tooltip(token.tooltip);
    }
  }
  const float height = view.empty() ? 0 : y + h;
  take_room(ui, name, origin, room, height);
  return hovered;
}

}  // namespace viz
