#include "viz/shell/scene_view.h"

#include <imgui.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cmath>

#include "viz/drawing/palette.h"

namespace viz {
namespace {

// Dear ImGui names a font's size by its line's height, 1.164 em of DejaVu Sans.
constexpr float kLinePerEm = 1.164f;

/// Draws shapes at a scale, with (0, 0) at an origin.
class Painter {
 public:
  Painter(ImDrawList& list, ImVec2 origin, float scale)
      : list_(list), origin_(origin), scale_(scale) {}

  void draw(const Drawn& drawn);
  void ring(const Shape& shape);

 private:
  ImVec2 at(float x, float y) const { return {origin_.x + x * scale_, origin_.y + y * scale_}; }
  void box(const Shape& shape, Colour fill, Colour edge);
  void pattern(const Shape& shape, const ImVec2& a, const ImVec2& b);
  void dashes(const ImVec2& from, const ImVec2& to, Colour colour, float thickness);
  void label(const Shape& shape, Colour colour);
  void line(const Shape& shape, Colour colour);

  ImDrawList& list_;
  ImVec2 origin_;
  float scale_;
};

Colour faded(Colour colour, float opacity) {
  const auto alpha = static_cast<float>(colour >> 24);
  return with_alpha(colour, static_cast<uint32_t>(alpha * opacity + 0.5f));
}

Colour mixed(Paint was, Paint now, float mix) {
  if (was == now || mix >= 1) return (*window_theme)(now);
  if (was.ink == Ink::kNone) return faded((*window_theme)(now), mix);
  if (now.ink == Ink::kNone) return faded((*window_theme)(was), 1 - mix);
  const ImVec4 a = ImGui::ColorConvertU32ToFloat4((*window_theme)(was));
  const ImVec4 b = ImGui::ColorConvertU32ToFloat4((*window_theme)(now));
  const auto part = [&](float from, float to) { return from + (to - from) * mix; };
  return ImGui::ColorConvertFloat4ToU32(
      {part(a.x, b.x), part(a.y, b.y), part(a.z, b.z), part(a.w, b.w)});
}

void Painter::draw(const Drawn& drawn) {
  const Shape& shape = drawn.shape;
  const Colour fill = faded(mixed(drawn.fill_was, shape.fill, drawn.mix), shape.opacity);
  const Colour edge = faded(mixed(drawn.edge_was, shape.edge, drawn.mix), shape.opacity);
  switch (shape.kind) {
    case Shape::Kind::kBox:
      return box(shape, fill, edge);
    case Shape::Kind::kText:
      return label(shape, fill);
    case Shape::Kind::kLine:
      return line(shape, edge);
  }
}

void Painter::box(const Shape& shape, Colour fill, Colour edge) {
  if (shape.at.w <= 0 || shape.at.h <= 0) return;  // smoothed edges would show
  const ImVec2 a = at(shape.at.x, shape.at.y), b = at(shape.at.right(), shape.at.bottom());
  const float r = shape.radius * scale_, thickness = shape.thickness * scale_;
  if (fill >> 24 != 0) list_.AddRectFilled(a, b, fill, r);
  if (shape.pattern != Pattern::kPlain) pattern(shape, a, b);
  if (edge >> 24 == 0) return;
  if (!shape.dashed) {
    list_.AddRect(a, b, edge, r, 0, thickness);
    return;
  }
  dashes(a, ImVec2(b.x, a.y), edge, thickness);
  dashes(ImVec2(b.x, a.y), b, edge, thickness);
  dashes(b, ImVec2(a.x, b.y), edge, thickness);
  dashes(ImVec2(a.x, b.y), a, edge, thickness);
}

void Painter::dashes(const ImVec2& from, const ImVec2& to, Colour colour, float thickness) {
  const float length = std::hypot(to.x - from.x, to.y - from.y), pitch = 7 * scale_;
  for (float done = 0; done < length; done += pitch) {
    const float u = done / length, v = std::min(1.0f, (done + 0.6f * pitch) / length);
    list_.AddLine(ImVec2(from.x + (to.x - from.x) * u, from.y + (to.y - from.y) * u),
                  ImVec2(from.x + (to.x - from.x) * v, from.y + (to.y - from.y) * v), colour,
                  thickness);
  }
}

void Painter::pattern(const Shape& shape, const ImVec2& a, const ImVec2& b) {
  const Paint ink = shape.edge.ink == Ink::kNone ? paint(Ink::kDim) : shape.edge;
  const Colour colour = faded((*window_theme)(ink), 0.45f * shape.opacity);
  const float thickness = 1.2f * scale_, pitch = 8 * scale_, h = b.y - a.y;
  list_.PushClipRect(a, b, true);
  if (shape.pattern == Pattern::kHatched) {
    for (float x = a.x - h; x < b.x; x += pitch) {
      list_.AddLine(ImVec2(x, b.y), ImVec2(x + h, a.y), colour, thickness);
    }
  } else if (shape.pattern == Pattern::kLined) {
    for (float y = a.y + pitch / 2; y < b.y; y += pitch) {
      list_.AddLine(ImVec2(a.x, y), ImVec2(b.x, y), colour, thickness);
    }
  } else if (shape.pattern == Pattern::kDotted) {
    for (float y = a.y + pitch / 2; y < b.y; y += pitch) {
      for (float x = a.x + pitch / 2; x < b.x; x += pitch) {
        list_.AddCircleFilled(ImVec2(x, y), 1.3f * scale_, colour, 6);
      }
    }
  } else {
    list_.AddLine(a, b, colour, thickness);
    list_.AddLine(ImVec2(a.x, b.y), ImVec2(b.x, a.y), colour, thickness);
  }
  list_.PopClipRect();
}

/// Whether a font has all characters of a text: the largest one has few.
bool has_all(const ImFont& font, const std::string& text) {
  const char *at = text.data(), *const end = at + text.size();
  while (at < end) {
    unsigned character = 0;
    at += std::max(ImTextCharFromUtf8(&character, at, end), 1);
    if (character >= 0x80 && !font.FindGlyphNoFallback(static_cast<ImWchar>(character)))
      return false;
  }
  return true;
}

/// The smallest font that is not smaller than that: shrinking is sharper than enlarging.
const ImFont& font_for(float pixels, const std::string& text) {
  const ImVector<ImFont*>& fonts = ImGui::GetIO().Fonts->Fonts;
  const ImFont* best = ImGui::GetFont();
  for (const ImFont* font : fonts) {
    if (!has_all(*font, text)) continue;
    const bool fits = font->FontSize >= pixels - 0.5f;
    if (fits ? best->FontSize < pixels - 0.5f || font->FontSize < best->FontSize
             : best->FontSize < font->FontSize && best->FontSize < pixels) {
      best = font;
    }
  }
  return *best;
}

void Painter::label(const Shape& shape, Colour colour) {
  const float wanted = shape.size * kLinePerEm * scale_;
  const ImFont& font = font_for(wanted, shape.text);
  // A font that is not scaled is sharp. A text that grew would lie on what is beside it.
  const bool is_near = font.FontSize < 1.005f * wanted && font.FontSize > wanted - 0.5f;
  const float pixels = is_near ? font.FontSize : wanted;
  const char *begin = shape.text.data(), *end = begin + shape.text.size();
  const float wide = font.CalcTextSizeA(pixels, FLT_MAX, 0, begin, end).x;
  const float room = shape.at.w * scale_;
  const float shift = shape.align == Align::kCentre  ? (room - wide) / 2
                      : shape.align == Align::kRight ? room - wide
                                                     : 0;
  const ImVec2 middle = at(shape.at.x, shape.at.middle_y());
  const ImVec2 corner(std::round(middle.x + shift), std::round(middle.y - pixels / 2));
  list_.AddText(&font, pixels, corner, colour, begin, end);
  if (shape.struck) {
    list_.AddLine(ImVec2(corner.x, middle.y), ImVec2(corner.x + wide, middle.y), colour,
                  1.5f * scale_);
  }
}

void Painter::line(const Shape& shape, Colour colour) {
  const float thickness = shape.thickness * scale_;
  const ImVec2 a = at(shape.at.x, shape.at.y), b = at(shape.at.right(), shape.at.bottom());
  const float length = std::max(std::hypot(b.x - a.x, b.y - a.y), 1e-3f);
  if (shape.dashed) {
    dashes(a, b, colour, thickness);
  } else {
    const ImVec2 ends[] = {a, b};
    list_.AddPolyline(ends, 2, colour, 0, thickness);
  }
  if (!shape.arrow) return;
  const float head = 8 * scale_, x = (b.x - a.x) / length, y = (b.y - a.y) / length;
  list_.AddTriangleFilled(b, ImVec2(b.x - head * x - head * y / 2, b.y - head * y + head * x / 2),
                          ImVec2(b.x - head * x + head * y / 2, b.y - head * y - head * x / 2),
                          colour);
}

void Painter::ring(const Shape& shape) {
  const ImVec2 a = at(shape.at.x - 2, shape.at.y - 2);
  const ImVec2 b = at(shape.at.right() + 2, shape.at.bottom() + 2);
  list_.AddRect(a, b, window_theme->accent, (shape.radius + 2) * scale_, 0, 2 * scale_);
}

bool answers(const Shape& shape) {
  return !shape.tooltip.empty() || !shape.command.empty() || !shape.selects.empty() ||
         !shape.lights.empty();
}

}  // namespace

SceneClick draw_scene(Ui& ui, const Scene& scene, const std::vector<Drawn>& drawn, float part) {
  const float s = part * ui.scale();
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  const ImRect place = ImGui::GetCurrentWindow()->ClipRect;
  const float beyond = 2 * ui.scale();  // half of the edge of a box at the picture's end
  ImGui::PushClipRect(ImVec2(place.Min.x - beyond, place.Min.y - beyond),
                      ImVec2(place.Max.x + beyond, place.Max.y + beyond), false);
  const Shape* hovered = nullptr;
  for (const Shape& shape : scene.shapes()) {
    if (!answers(shape)) continue;
    const Place& at = shape.at;
    if (ui.region(shape.id, origin.x + at.x * s, origin.y + at.y * s, at.w * s, at.h * s)) {
      hovered = &shape;
    }
  }
  const auto lit = [&](const Shape& shape) {
    return hovered != nullptr &&
           (shape.id == hovered->id ||
            std::ranges::find(hovered->lights, shape.id) != hovered->lights.end());
  };
  Painter painter(*ImGui::GetWindowDrawList(), origin, s);
  for (const Drawn& one : drawn) {
    if (!one.shape.only_lit || lit(one.shape)) painter.draw(one);
  }
  SceneClick click;
  if (hovered != nullptr) {
    for (const Shape& shape : scene.shapes()) {
      if (lit(shape) && shape.kind == Shape::Kind::kBox) painter.ring(shape);
    }
    if (!hovered->tooltip.empty()) ui.tooltip(hovered->tooltip);
    if (ui.mouse_clicked()) click = {hovered->command, hovered->selects};
  }
  ImGui::PopClipRect();
  ImGui::Dummy(ImVec2(scene.room().w * s, scene.room().h * s));
  return click;
}

}  // namespace viz
