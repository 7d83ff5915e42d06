#pragma once

// Every colour of the visualizer. Hues follow Okabe and Ito's palette, which the colour-blind can
// tell apart, lightened for a dark ground; more sequences than hues begin again.

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

inline constexpr Colour kGround = rgb(0x14171C);
inline constexpr Colour kPanel = rgb(0x1C2027);
inline constexpr Colour kCellFree = rgb(0x23282F);
inline constexpr Colour kCellUsed = rgb(0x323944);
inline constexpr Colour kLine = rgb(0x3A424E);
inline constexpr Colour kText = rgb(0xE8ECF1);
inline constexpr Colour kDim = rgb(0x98A2B0);
inline constexpr Colour kAccent = rgb(0x56B4E9);
inline constexpr Colour kMark = rgb(0xFFFFFF);
inline constexpr Colour kError = rgb(0xFF8A65);

inline constexpr std::array<Colour, kNumHues> kHues = {rgb(0x56B4E9), rgb(0xE69F00), rgb(0x2BC49A),
                                                       rgb(0xF0E442), rgb(0xE58CC0), rgb(0xF07B4A),
                                                       rgb(0x6F9BFF), rgb(0xB8C4D0)};
inline constexpr std::array<Colour, kNumHues> kDarkHues = {
    rgb(0x0072B2), rgb(0xB86E00), rgb(0x00805D), rgb(0x857800),
    rgb(0xA63F7D), rgb(0xBB450C), rgb(0x3A55CC), rgb(0x5A6877)};
inline Colour hue(int index) {
  const auto n = static_cast<int>(kHues.size());
  return kHues[static_cast<size_t>((index % n + n) % n)];
}

/// What the inks of a scene look like.
struct Theme {
  Colour ground, panel, cell, line, dim, text, mark, error;
  const std::array<Colour, kNumHues>& hues;

  Colour operator()(const Paint& paint) const {
    const Colour inks[] = {0, ground, panel, cell, line, dim, text, mark, error};
    const auto n = static_cast<int>(hues.size());
    const Colour colour = paint.ink == Ink::kHue
                              ? hues[static_cast<size_t>((paint.hue % n + n) % n)]
                              : inks[static_cast<size_t>(paint.ink)];
    if (paint.ink == Ink::kNone) return 0;
    return with_alpha(colour, static_cast<uint32_t>(255.0f * paint.strength + 0.5f));
  }
};
inline constexpr Theme kDark = {kGround, kPanel, kCellFree, kLine, kDim,
                                kText,   kMark,  kError,    kHues};
inline constexpr Theme kLight = {rgb(0xFFFFFF), rgb(0xF3F5F8), rgb(0xE9EDF1),
                                 rgb(0xA9B4C0), rgb(0x52606D), rgb(0x1F2933),
                                 rgb(0x000000), rgb(0xB3300C), kDarkHues};

}  // namespace viz
