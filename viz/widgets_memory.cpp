// A widget for blocks in a chain.

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <string>

#include "viz/drawing.h"
#include "viz/palette.h"
#include "viz/widgets.h"

namespace viz {

void chain(Ui& ui, const std::string& name, const ChainView& view) {
  const auto [s, origin, room, list] = canvas(ui);
  const float w = 150 * s, h = 62 * s, gap = 24 * s, left = 34 * s;
  const int columns = std::max(1, static_cast<int>((room - left + gap) / (w + gap)));
  const Colour colour = hue(view.sequence.hue);
  list.AddRectFilled(ImVec2(origin.x, origin.y), ImVec2(origin.x + 5 * s, origin.y + h), colour,
                     2 * s);
  text_at(list, origin.x + 11 * s, origin.y + 4 * s, kText, fitting(view.sequence.name, 22 * s));
  for (size_t i = 0; i < view.links.size(); ++i) {
    const ChainView::Link& link = view.links[i];
    const auto column = static_cast<float>(static_cast<int>(i) % columns);
    const auto row = static_cast<float>(static_cast<int>(i) / columns);
    const ImVec2 a(origin.x + left + column * (w + gap), origin.y + row * (h + 10 * s));
    const ImVec2 b(a.x + w, a.y + h);
    if (scrolled_away(list, a.y, h)) continue;
    const bool hit = link.mark == ChainView::Mark::kHit;
    const bool wrong = link.mark == ChainView::Mark::kWrong;
    list.AddRectFilled(a, b,
                       with_alpha(hit     ? hue(2)
                                  : wrong ? kError
                                          : colour,
                                  hit ? 110 : 60),
                       5 * s);
    if (hit || wrong) list.AddRect(a, b, wrong ? kError : hue(2), 5 * s, 0, 2 * s);
    text_at(list, a.x + 8 * s, a.y + 4 * s, kDim,
            fmt::format("block {}{}", link.block_id,
                        hit     ? ", found"
                        : wrong ? ", WRONG"
                                : ""));
    text_at(list, a.x + 8 * s, a.y + 22 * s, kText, fitting(link.text, w - 14 * s));
    text_at(list, a.x + 8 * s, a.y + 40 * s, kDim, fitting(link.hash, w - 14 * s));
    if (i + 1 < view.links.size() && static_cast<int>(i + 1) % columns != 0) {
      const float y = a.y + 48 * s;  // from hash to hash
      list.AddLine(ImVec2(b.x + 2 * s, y), ImVec2(b.x + gap - 4 * s, y), kDim, 1.5f * s);
      list.AddTriangleFilled(ImVec2(b.x + gap - 2 * s, y), ImVec2(b.x + gap - 9 * s, y - 4 * s),
                             ImVec2(b.x + gap - 9 * s, y + 4 * s), kDim);
    }
    if (mouse_in(a, b)) ui.tooltip(link.tooltip);
  }
  const auto n = static_cast<int>(view.links.size());
  const int rows = std::max(1, (n + columns - 1) / columns);
  take_room(ui, name, origin, room, static_cast<float>(rows) * (h + 10 * s));
}

}  // namespace viz
