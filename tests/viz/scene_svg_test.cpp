// Scenes as SVG files: the same shapes, still or moving.

#include "viz/drawing/scene_svg.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "viz/drawing/parts.h"

namespace {

/// How often `part` occurs.
int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// A holds six tokens in blocks of four; its last block is shared with B, or copied.
viz::Scene sharing(bool copied) {
  viz::Scene scene({400, 200});
  viz::PoolView pool = viz::pool_view(4, 0, 3, [&](int id) { return id == 2 ? copied : 2; });
  pool.at(0).tokens = {"o", "n", "c", "e"};
  pool.at(1).tokens = {"a", "t"};
  if (copied) pool.at(2).tokens = {"a", "t", "x"};
  const std::vector<int32_t> a{0, 1}, b{0, copied ? 2 : 1};
  const viz::TableView first = pool.add({"A", 0}, a, 6);
  const viz::TableView second = pool.add({"B", 1}, b, copied ? 7 : 6);
  viz::table(scene, first, {0, 0, 400, 30});
  viz::table(scene, second, {0, 36, 400, 30});
  viz::pool(scene, pool, {0, 80, 400, 120});
  return scene;
}

std::string animation() {
  viz::Scene after = sharing(true);
  after.ghost({.id = "ghost", .at = {0, 80, 30, 30}, .fill = viz::full(0)}, {200, 80, 0, 0},
              {0.25f, 0.75f});
  after.leaves("slot 1/1", {300, 300, 0, 0}, {0, 1}, true);
  return viz::svg_animation(
      {{sharing(false), "Shared & read by <both>.", 0, 1}, {after, "Copied.", 1, 2}},
      "Copy on write");
}

}  // namespace

TEST_CASE("a still has each label, colours for light and dark, and no motion") {
  const std::string svg = viz::svg_still(sharing(false), "A \"title\"");
  for (const char* label : {">once<", ">A<", ">B<", ">o<", ">t<", ">\u00D72<"}) {
    CAPTURE(label);
    CHECK(count(svg, label) == (label == std::string(">once<")      ? 0
                                : label == std::string(">\u00D72<") ? 2
                                                                    : 1));
  }
  CHECK(count(svg, "prefers-color-scheme:dark") == 1);
  CHECK(count(svg, "@keyframes") == 0);
  CHECK(count(svg, "aria-label=\"A &quot;title&quot;\"") == 1);
  CHECK(svg == viz::svg_still(sharing(false), "A \"title\""));
}

TEST_CASE("a file is XML, whatever bytes a title has") {
  const std::string svg = viz::svg_still(sharing(false), "<\xFF&\x01\uFFFF\u00e9");
  CHECK(count(svg, "aria-label=\"&lt;\uFFFD&amp;\uFFFD\u00e9\"") == 1);
}

TEST_CASE("an animation moves what changes, and nothing else") {
  const std::string svg = animation();
  CHECK(count(svg, "<title>Copy on write</title>") == 1);
  CHECK(count(svg, "Shared &amp; read by &lt;both>.") == 1);
  CHECK(count(svg, "prefers-reduced-motion") == 1);
  // A's table stands: its name and its entries have no class of an animation.
  CHECK(count(svg, "<text x='10' ") == 2);
  CHECK(count(svg, ">o</text>") == 1);
  const size_t name = svg.find(">A</text>");
  CHECK(svg.rfind("class='a", name) < svg.rfind("<text", name));
  // The ghost is not there at rest.
  const size_t ghost = svg.find("width='30' height='30'");
  REQUIRE(ghost != std::string::npos);
  CHECK(svg.substr(ghost, 120).find("opacity='0'") != std::string::npos);
}

TEST_CASE("a program that reads no style sheet shows the still, also if the film goes on") {
  viz::Scene first({400, 200}), still({400, 200}), last({400, 200});
  first.box("box", {10, 10, 20, 20}, viz::full(0));
  viz::dress(still.box("box", {110, 10, 20, 20}, {}), viz::State::kFound, 1);
  last.box("box", {310, 10, 20, 20}, viz::full(0));
  last.box("late", {10, 100, 50, 50}, viz::full(0));
  const std::string svg =
      viz::svg_animation({{first, "", 0, 1}, {still, "now", 1, 1}, {last, "later", 1, 1}}, "", 1);
  CHECK(count(svg, "stroke-width:2.5px") >= 1);  // the edge grows
  const auto hidden = [&](const std::string& part) {
    const size_t at = svg.find(part);
    return svg.substr(svg.rfind('<', at), svg.find('>', at) - svg.rfind('<', at))
               .find(" opacity='0'") != std::string::npos;
  };
  CHECK_FALSE(hidden("x='110' y='10' width='20'"));
  CHECK(count(svg, "x='310'") == 0);
  CHECK(count(svg, "stroke-width='2.5'") >= 1);
  CHECK(hidden("width='50' height='50'"));
  CHECK(hidden(">later</text>"));
  CHECK_FALSE(hidden(">now</text>"));
}

TEST_CASE("every animation that is named has its steps, from the first to the last moment") {
  const std::string svg = animation();
  const int named = count(svg, "{animation-name:k");
  CHECK(named > 3);
  CHECK(count(svg, "@keyframes k") == named);
  CHECK(count(svg, "100%") >= named);
  CHECK(std::ranges::count(svg, '{') == std::ranges::count(svg, '}'));
}

TEST_CASE("a text keeps its middle or its right end when its place is narrower") {
  viz::Scene wide({400, 200}), narrow({400, 200});
  wide.label("middle", {100, 0, 100, 20}, "m", {.align = viz::Align::kCentre});
  narrow.label("middle", {120, 0, 60, 20}, "m", {.align = viz::Align::kCentre});
  wide.label("right", {100, 40, 100, 20}, "r", {.align = viz::Align::kRight});
  narrow.label("right", {140, 40, 60, 20}, "r", {.align = viz::Align::kRight});
  CHECK(count(viz::svg_animation({{wide, "", 0, 1}, {narrow, "", 1, 1}}, ""), "translate(") == 1);
}

TEST_CASE("a cross is as large as its box at every moment") {
  viz::Scene small({400, 200}), large({400, 200});
  for (viz::Scene* scene : {&small, &large}) {
    const float w = scene == &small ? 20.0f : 90.0f;
    viz::dress(scene->box("row", {10, 10, w, 20}, {}), viz::State::kPreempted, 0);
  }
  const std::string svg = viz::svg_animation({{small, "", 0, 1}, {large, "", 1, 1}}, "");
  CHECK(count(svg, "d='M10 10L30 30M10 30L30 10'") >= 1);
  CHECK(count(svg, "d='M10 10L100 30M10 30L100 10'") >= 1);
}

TEST_CASE("a box lies under what is in it, also if that was there before it") {
  viz::Scene before({400, 200}), after({400, 200});
  before.label("word", {20, 20, 60, 20}, "word");
  before.box("other", {200, 20, 60, 60}, viz::soft(1));
  after.box("other", {200, 20, 60, 60}, viz::soft(1));
  after.box("frame", {10, 10, 100, 100}, viz::paint(viz::Ink::kPanel));
  after.label("word", {20, 20, 60, 20}, "word");
  const std::string svg = viz::svg_animation({{before, "", 0, 1}, {after, "", 1, 1}}, "");
  CHECK(svg.find("width='100' height='100'") < svg.find(">word</text>"));
}

TEST_CASE("what travels lies over what stands, and is at home again afterwards") {
  viz::Scene before({400, 200}), after({400, 200});
  before.box("traveller", {10, 10, 20, 20}, viz::full(0));
  after.box("traveller", {300, 10, 20, 20}, viz::full(0));
  for (viz::Scene* scene : {&before, &after}) {
    scene->box("wall", {100, 0, 50, 100}, viz::paint(viz::Ink::kPanel));
  }
  const std::string svg = viz::svg_animation({{before, "", 0, 1}, {after, "", 1, 1}}, "");
  const std::string box = "width='20' height='20'", wall = "width='50' height='100'";
  CHECK(svg.find(box) < svg.find(wall));   // as in the scenes
  CHECK(svg.rfind(box) > svg.find(wall));  // its double, unseen at rest
  CHECK(svg.substr(svg.rfind(box), 80).find("opacity='0'") != std::string::npos);
}
