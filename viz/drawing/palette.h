#pragma once

// Every colour of the visualizer. Hues follow Okabe and Ito's palette, but for a lime where that
// has a yellow: half mixed with a dark ground, a yellow looks like amber. They have one brightness
// for a dark ground and one for a light one; more sequences than hues begin again.

#include <array>
#include <cstdint>

#include "viz/drawing/scene.h"
#include "viz/names.h"

namespace viz {

/// 0xAABBGGRR, as ImGui packs colours.
using Colour = uint32_t;
constexpr Colour rgb(uint32_t hex, uint32_t alpha = 255) {
  return alpha << 24 | (hex & 0xFF) << 16 | (hex & 0xFF00) | hex >> 16;
}
constexpr Colour with_alpha(Colour colour, uint32_t alpha) {
  return (colour & 0x00FFFFFF) | alpha << 24;
}

inline constexpr std::array<Colour, kNumHues> kHues = {rgb(0x56B4E9), rgb(0xE69F00), rgb(0x2BC298),
                                                       rgb(0x7FBD1E), rgb(0xE88FC3), rgb(0xF99168),
                                                       rgb(0x91A6FE), rgb(0xA0ACB8)};
inline constexpr std::array<Colour, kNumHues> kDarkHues = {
    rgb(0x0072B2), rgb(0xB86E00), rgb(0x00805D), rgb(0x4F7A00),
    rgb(0xA63F7D), rgb(0xBB450C), rgb(0x3A55CC), rgb(0x5A6877)};
/// Colours of a scene's inks, and of the window around it.
struct Theme {
  Colour ground, panel, cell, line, dim, text, mark, error;
  Colour accent, popup, field, field_over, button, button_over, pressed, chosen;
  float fill;  // strength of a field's hue, see soft(): a dark ground takes more of it away
  const std::array<Colour, kNumHues>& hues;

  Colour operator()(const Paint& paint) const {
    const Colour inks[] = {0, ground, panel, cell, line, dim, text, mark, error};
    const auto n = static_cast<int>(hues.size());
    const Colour colour = paint.ink == Ink::kHue
                              ? hues[static_cast<size_t>((paint.hue % n + n) % n)]
                              : inks[static_cast<size_t>(paint.ink)];
    if (paint.ink == Ink::kNone) return 0;
    const float strength = paint == soft(paint.hue) ? fill : paint.strength;
    return with_alpha(colour, static_cast<uint32_t>(255.0f * strength + 0.5f));
  }
};
inline constexpr Theme kDark = {.ground = rgb(0x14171C),
                                .panel = rgb(0x1C2027),
                                .cell = rgb(0x20252C),
                                .line = rgb(0x3A424E),
                                .dim = rgb(0x98A2B0),
                                .text = rgb(0xE8ECF1),
                                .mark = rgb(0xFFFFFF),
                                .error = rgb(0xFF8A65),
                                .accent = rgb(0x56B4E9),
                                .popup = rgb(0x2A303A),
                                .field = rgb(0x262C35),
                                .field_over = rgb(0x323944),
                                .button = rgb(0x2B3440),
                                .button_over = rgb(0x3C4A5C),
                                .pressed = rgb(0x4A6A88),
                                .chosen = rgb(0x31536E),
                                .fill = 0.52f,
                                .hues = kHues};
inline constexpr Theme kLight = {.ground = rgb(0xFFFFFF),
                                 .panel = rgb(0xF3F5F8),
                                 .cell = rgb(0xE9EDF1),
                                 .line = rgb(0xA9B4C0),
                                 .dim = rgb(0x52606D),
                                 .text = rgb(0x1F2933),
                                 .mark = rgb(0x000000),
                                 .error = rgb(0xB3300C),
                                 .accent = rgb(0x0072B2),
                                 .popup = rgb(0xFFFFFF),
                                 .field = rgb(0xE4E9EE),
                                 .field_over = rgb(0xD8E0E8),
                                 .button = rgb(0xDFE6ED),
                                 .button_over = rgb(0xCBD6E1),
                                 .pressed = rgb(0xA9C4DE),
                                 .chosen = rgb(0xB5D3EA),
                                 .fill = kSoft,
                                 .hues = kDarkHues};

/// The window's. Files have both.
inline const Theme* window_theme = &kDark;

}  // namespace viz
