#include <fmt/format.h>

#include <algorithm>

#include "common/table.h"
#include "page.h"
#include "viz/drawing/parts.h"

namespace lesson14 {
namespace {

using viz::Ink;
using viz::paint;
using viz::Place;

constexpr float kHead = 22, kScale = 64, kGap = 6, kAxis = 16;
constexpr float kAround = 2;  // from a number to the second edge around it

/// One number of a token's head: what was written, and under it what comes back.
void draw_number(viz::Scene& scene, const ShownToken& token, size_t t, size_t i, const Place& at) {
  const std::string id = fmt::format("number {}/{}", t, i);
  viz::Shape& box = dress(scene.box(id, at, {}), viz::State::kInUse, 0);
  if (token.changed[i]) box.edged(paint(Ink::kMark), 2.5f);
  if (token.is_lost(i)) box.edged(paint(Ink::kError), 2.5f);
  box.tip(fmt::format("{:g} / 2^{} is nearest to code 0x{:02X}\nback: {:g}", token.numbers[i],
                      token.exponent, token.codes[i], token.back(i)));
  if (token.is_lost(i) && token.changed[i]) {  // an edge around the other
    scene.box(id + "/changed", at.inset(-kAround), {}, paint(Ink::kMark))
        .edged(paint(Ink::kMark), 2.5f);
  }
  const Place upper{at.x + 3, at.y + 2, at.w - 6, at.h / 2 - 2};
  const Place lower{at.x + 3, at.middle_y(), at.w - 6, at.h / 2 - 2};
  scene.label(id + "/in", upper, fmt::format("{:.4g}", token.numbers[i]),
              {.size = 13, .align = viz::Align::kCentre});
  scene.label(fmt::format("{}/back {}", id, token.codes[i]), lower,
              fmt::format("{:.4g}", token.back(i)), {.size = 13, .align = viz::Align::kCentre});
}

void draw_block(viz::Scene& scene, const Shown& shown, const Place& at) {
  viz::heading(scene, "block/head", {at.x, at.y, at.w - kScale, kHead},
               "A block: each number, and what comes back");
  scene.label("scale/head", {at.right() - kScale, at.y, kScale, kHead}, "scale",
              {.size = 13, .paint = {Ink::kDim}, .align = viz::Align::kCentre});
  const float top = at.y + kHead + kGap;
  const float row = (at.bottom() - top) / static_cast<float>(kTokens);
  const size_t lines = viz::is_narrow(scene.room()) ? 2 : 1, in_line = kNumbers / lines;
  const float column = (at.w - kScale - kGap) / static_cast<float>(in_line);
  const float line = row / static_cast<float>(lines);
  for (size_t t = 0; t < kTokens; ++t) {
    const float y = top + static_cast<float>(t) * row;
    const Place scale{at.right() - kScale, y, kScale, row - kGap};
    if (t >= shown.tokens.size()) {
      const Place slot{at.x, y, at.w, row - kGap};
      dress(scene.box(fmt::format("slot {}", t), slot, {}), viz::State::kFree);
      continue;
    }
    const ShownToken& token = shown.tokens[t];
    for (size_t i = 0; i < token.codes.size(); ++i) {
      draw_number(scene, token, t, i,
                  {at.x + static_cast<float>(i % in_line) * column,
                   y + static_cast<float>(i / in_line) * line, column - kGap, line - kGap});
    }
    scene.box(fmt::format("scale {}", t), scale, paint(Ink::kPanel), paint(Ink::kLine));
    scene.label(fmt::format("scale {}/{}", t, token.exponent), scale.inset(3),
                fmt::format("2^{}", token.exponent), {.size = 14, .align = viz::Align::kCentre});
  }
}

/// Two bars of tokens, and below them their scale. It is the same for all memories of the page's
/// buttons, so that a larger memory has longer bars; a memory beyond them has a scale of its own.
void draw_memory(viz::Scene& scene, const Shown& shown, const Place& at) {
  viz::heading(scene, "memory/head", {at.x, at.y, at.w, kHead},
               fmt::format("Tokens of Qwen3-0.6B in {} GiB", shown.memory_gib));
  const int64_t tick = shown.tokens_in(true) <= 1'500'000 ? 500'000 : 5'000'000;
  const float first = at.x + 48, last = at.right() - 92;
  const auto x_of = [&](int64_t tokens) {
    const int64_t all = tick == 500'000 ? 3 * tick : 4 * tick;
    return first + (last - first) * static_cast<float>(tokens) / static_cast<float>(all);
  };
  const float axis = at.bottom() - kAxis, height = (axis - at.y - kHead) / 2;
  for (int64_t tokens = 0; x_of(tokens) <= last + 1; tokens += tick) {
    const std::string id = fmt::format("scale of memory/{}", tokens);
    scene.line(id, x_of(tokens), at.y + kHead, x_of(tokens), axis, paint(Ink::kLine), 1);
    scene.label(id + "/name", {x_of(tokens) - 45, axis, 90, kAxis}, kv::with_commas(tokens),
                {.size = 12, .paint = {Ink::kDim}, .align = viz::Align::kCentre});
  }
  for (const bool fp8 : {false, true}) {
    const Place row{at.x, at.y + kHead + (fp8 ? height : 0), at.w, height};
    const std::string id = fp8 ? "fp8" : "bf16";
    const int64_t tokens = shown.tokens_in(fp8);
    scene.label(id + "/name", {row.x, row.y, 44, row.h}, fp8 ? "FP8" : "bf16", {.size = 13});
    const Place bar{first, row.y + 5, x_of(tokens) - first, row.h - 10};
    scene.box(id, bar, viz::full(0)).radius = 2;
    const Place count{bar.right() + 8, row.middle_y() - 10, 84, 20};
    scene.box(id + "/plate", count, paint(Ink::kGround));  // over the lines
    scene.label(fmt::format("{}/tokens {}", id, shown.memory_gib), count, kv::with_commas(tokens));
  }
}

}  // namespace

viz::Scene fp8_scene(const viz::Room& room, const Shown& shown) {
  viz::Scene scene(room);
  const float bars = std::clamp(0.28f * room.h, 96.0f, 260.0f);
  const bool narrow = viz::is_narrow(room);
  const float note = room.is_told ? 0 : narrow ? 70 : 40, legend = narrow ? 44 : 20;
  const float block = room.h - note - bars - legend - 3 * kGap;
  draw_block(scene, shown, {kAround, 0, room.w - 2 * kAround, block});
  viz::legend(scene, {0, block, room.w, legend},
              {{viz::State::kInUse, "written, and below it read"},
               {.state = viz::State::kInUse, .name = "has another code now", .edge = Ink::kMark},
               {.state = viz::State::kInUse, .name = "lost", .edge = Ink::kError},
               {viz::State::kFree, "empty"}});
  if (!room.is_told)
    viz::note(scene, "reason", {0, block + legend + kGap, room.w, note}, shown.reason);
  draw_memory(scene, shown, {0, block + legend + note + 3 * kGap, room.w, bars});
  return scene;
}

}  // namespace lesson14
