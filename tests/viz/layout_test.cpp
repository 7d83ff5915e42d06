// Measures of a picture, on pictures made for them.

#include "viz/drawing/layout.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "viz/drawing/motion.h"
#include "viz/drawing/parts.h"
#include "viz/drawing/window_layout.h"

namespace {

using viz::Ink;
using viz::paint;
using viz::soft;

/// Texts in boxes in a box: nothing is wrong.
viz::Scene good() {
  viz::Scene scene({400, 200});
  scene.box("panel", {0, 0, 400, 200}, paint(Ink::kPanel), paint(Ink::kLine));
  for (const int i : {0, 1}) {
    const viz::Place at{10 + 100 * static_cast<float>(i), 10, 90, 40};
    scene.box("cell " + std::to_string(i), at, soft(i), viz::full(i));
    scene.label("name " + std::to_string(i), at, "words", {.align = viz::Align::kCentre});
  }
  return scene;
}

/// Whether that is the only fault.
void check_fault(const viz::Scene& scene, const std::string& what) {
  const auto faults = viz::layout_faults(scene);
  CAPTURE(what);
  REQUIRE(faults.size() >= 1);
  for (const std::string& fault : faults) {
    CHECK_MESSAGE(fault.find(what) != std::string::npos, fault);
  }
}

}  // namespace

TEST_CASE("a picture in which all is well has no faults") {
  CHECK(viz::layout_faults(good()).empty());
}

TEST_CASE("each fault of a picture is found") {
  viz::Scene scene = good();
  scene.label("long", {10, 100, 40, 20}, "far too many words");
  check_fault(scene, "long is cut");
  scene = good();
  scene.label("out", {390, 100, 60, 20}, "words");
  check_fault(scene, "out");
  scene = good();
  scene.box("wide", {380, 100, 40, 10}, {});
  check_fault(scene, "wide");
  scene = good();
  scene.line("far", 10, 100, 10, 300, paint(Ink::kText));
  check_fault(scene, "the line far leads out");
  scene = good();
  scene.label("other", {20, 12, 80, 40}, "words");
  check_fault(scene, "the texts");
  scene = good();
  scene.box("across", {50, 40, 30, 60}, {});
  check_fault(scene, "neither nested nor apart");
  scene = good();
  scene.label("beside", {190, 60, 60, 20}, "words");
  scene.box("edge", {200, 50, 90, 40}, {}, paint(Ink::kLine));
  check_fault(scene, "the text beside");
  scene = good();
  scene.label("under", {210, 60, 60, 20}, "words");
  scene.box("cover", {200, 50, 90, 40}, paint(Ink::kCell));
  check_fault(scene, "is drawn over the text under");
  scene = good();
  scene.box("cell 0", {10, 100, 10, 10}, {});
  check_fault(scene, "cell 0 is there twice");
}

TEST_CASE("every word of the window stands out from what is under it, in both themes") {
  for (const viz::Theme* theme : {&viz::kDark, &viz::kLight}) {
    for (const viz::Colour under : {theme->ground, theme->panel, theme->popup}) {
      for (const viz::Colour word : {theme->text, theme->dim, theme->error, theme->accent}) {
        CHECK(viz::contrast(word, under) >= 4.5);
      }
    }
    for (const viz::Colour under : {theme->field, theme->field_over, theme->button,
                                    theme->button_over, theme->pressed, theme->chosen}) {
      CHECK(viz::contrast(theme->text, under) >= 4.5);
    }
  }
}

TEST_CASE("fills stand out from the gap between them, and in the dark lime from amber") {
  const auto part = [](viz::Colour colour, int i) {
    return static_cast<int>(colour >> 8 * i & 255);
  };
  const std::pair<const viz::Theme*, int> themes[] = {{&viz::kDark, 3}, {&viz::kLight, 2}};
  for (const auto& [theme, least] : themes) {
    const viz::Colour ground = theme->ground;
    for (int i = 0; i < viz::kNumHues; ++i) {
      CAPTURE(i);
      const viz::Colour hue = (*theme)(soft(i));
      viz::Colour fill = 0;
      for (int k = 0; k < 3; ++k) {
        const int all = part(ground, k) * (255 - part(hue, 3)) + part(hue, k) * part(hue, 3);
        fill |= static_cast<viz::Colour>((all + 127) / 255) << 8 * k;
      }
      CHECK(viz::contrast(fill, ground) >= least);
      CHECK(viz::contrast(fill, theme->text) >= 4.5);
    }
  }
  const auto redness = [&](viz::Colour colour) { return part(colour, 0) - part(colour, 1); };
  CHECK(redness(viz::kHues[1]) - redness(viz::kHues[3]) > 100);
}

TEST_CASE("contrast is measured against all that lies under a text, in both themes") {
  viz::Scene scene = good();
  scene.label("faint", {10, 100, 90, 20}, "words", {.paint = paint(Ink::kLine)});
  check_fault(scene, "has a contrast");
  scene = good();
  scene.box("strong", {10, 100, 90, 20}, viz::full(3));
  scene.label("on strong", {10, 100, 90, 20}, "words");
  check_fault(scene, "the text on strong");
  scene = good();
  scene.label("pale", {10, 100, 90, 20}, "words").opacity = 0.4f;
  check_fault(scene, "has a contrast");
}

TEST_CASE("what may lie over others is measured among its kind") {
  viz::Scene scene = good();
  scene.box("bubble", {40, 20, 120, 60}, paint(Ink::kPanel), paint(Ink::kText)).on_top();
  scene.label("reason", {50, 25, 100, 20}, "because").on_top();
  CHECK(viz::layout_faults(scene).empty());
  scene.label("another", {50, 27, 100, 20}, "because").on_top();
  check_fault(scene, "the texts");
  scene = good();
  scene.label("loose", {40, 22, 100, 20}, "because").on_top();  // no bubble under it
  check_fault(scene, "the texts");
  scene = good();
  viz::legend(scene, {10, 150, 380, 18}, {{viz::State::kInUse, "in use"}});
  CHECK(viz::layout_faults(scene).empty());
  scene.box("bubble", {10, 140, 120, 60}, paint(Ink::kPanel), paint(Ink::kText)).on_top();
  check_fault(scene, "of the legend");
}

TEST_CASE("a number that counts up is one number at every moment of its motion") {
  for (const int64_t to : {4, 5, 7, 940, 1}) {
    viz::Scene before({400, 200}), after({400, 200});
    viz::count_up(before, "rows", {10, 10, 90, 20}, 4, 4, {});
    viz::count_up(after, "rows", {10, 10, 90, 20}, 4, to, {}, {0.2f, 0.8f});
    const auto tracks = viz::tracks(before, after);
    for (const float t : {0.0f, 0.1f, 0.27f, 0.43f, 0.63f, 0.85f, 1.0f}) {
      CAPTURE(to);
      CAPTURE(t);
      const auto drawn = viz::at_moment(tracks, t);
      REQUIRE(drawn.size() == 1);
      const int64_t seen = std::stoll(drawn[0].shape.text);
      CHECK((t < 0.2f ? seen == 4 : t > 0.8f ? seen == to : (seen - 4) * (seen - to) <= 0));
    }
  }
}

TEST_CASE("the picture has most of the window, and the parts do not overlap") {
  for (const auto& size : {std::pair{1024.0f, 640.0f}, {1280, 800}, {1920, 1080}, {2560, 1440}}) {
    const auto& [w, h] = size;
    CAPTURE(size.first);
    const viz::WindowLayout parts = viz::window_layout(w, h);
    CHECK(parts.main.w * parts.main.h >= 0.55f * w * h);
    CHECK(parts.side.w >= 230);
    CHECK(parts.tabs.bottom() <= parts.main.y);
    CHECK(parts.main.right() <= parts.side.x);
    CHECK(parts.side.right() <= w);
    CHECK(parts.main.bottom() <= parts.sentence.y);
    CHECK(parts.sentence.bottom() <= parts.player.y);
    CHECK(parts.player.bottom() <= h);
    const viz::WindowLayout folded = viz::window_layout(w, h, {.actions = true, .folded = true});
    CHECK(folded.main.w == w - 20);
    CHECK(folded.side.h == 0);
    CHECK(folded.counters.bottom() <= folded.main.y);
    CHECK(folded.main.bottom() <= folded.actions.y);
  }
  const viz::WindowLayout phone = viz::window_layout(560, 1000);
  CHECK(phone.main.w == phone.side.w);
  CHECK(phone.main.w == 540);
  CHECK(phone.main.bottom() < phone.side.y);
  CHECK(phone.main.h > phone.side.h);
  CHECK(phone.page.y == phone.main.y);  // one place that scrolls
  CHECK(phone.page.bottom() == phone.side.bottom());
  CHECK(phone.side.bottom() < phone.sentence.y);
}

TEST_CASE("every mark of a picture is in its legend, and a glyph suits its box") {
  using viz::State;
  const auto marks_of = [](State state, std::vector<viz::LegendEntry> entries) {
    viz::Scene scene = good();
    viz::dress(*scene.find("cell 0"), state, 0);
    if (state == State::kDecode) viz::twin_bar(scene, "bar", {10, 10, 90, 40});
    viz::legend(scene, {10, 150, 380, 18}, entries);
    return viz::unexplained_marks(scene);
  };
  const viz::LegendEntry in_use{State::kInUse, "a"};
  for (const State state : {State::kReserved, State::kCached, State::kPreempted, State::kPrompt,
                            State::kFree, State::kEvicted, State::kDecode}) {
    CAPTURE(static_cast<int>(state));
    CHECK_FALSE(marks_of(state, {in_use}).empty());
    const bool has_twin = state == State::kDecode;
    CHECK(marks_of(state, {in_use, {.state = state, .name = "b", .hue = 0, .has_twin = has_twin}})
              .empty());
  }
  for (const Ink ink : {Ink::kMark, Ink::kError}) {
    viz::Scene scene = good();
    scene.find("cell 0")->edged(paint(ink), 2);
    CHECK(viz::unexplained_marks(scene).size() == 1);
    viz::legend(scene, {10, 150, 380, 18}, {{.state = State::kInUse, .name = "b", .edge = ink}});
    CHECK(viz::unexplained_marks(scene).empty());
  }
  viz::Scene scene = good();
  scene.label("cell 0/id", {20, 12, 80, 20}, viz::glyph(State::kFound) + "7");
  CHECK(viz::unexplained_marks(scene).size() == 1);
  viz::dress(*scene.find("cell 0"), State::kFound, 0);
  CHECK(viz::unexplained_marks(scene).empty());
}

TEST_CASE("the samples of a legend can be seen, and told apart") {
  const auto legend_of = [](const std::vector<viz::LegendEntry>& entries) {
    viz::Scene scene({900, 60});
    viz::legend(scene, {0, 10, 900, 20}, entries);
    return scene;
  };
  using viz::State;
  const std::vector<viz::LegendEntry> all{
      {State::kFree, "a"},   {State::kInUse, "b"},     {State::kReserved, "c"},
      {State::kCached, "d"}, {State::kFound, "e"},     {State::kPrompt, "f"},
      {State::kDecode, "g"}, {State::kPreempted, "h"}, {State::kEvicted, "i"}};
  for (const auto first : {all.begin(), all.end() - 5}) {
    CHECK(viz::layout_faults(legend_of({first, first + 5})).empty());
  }
  viz::Scene scene = legend_of(all);
  CHECK(scene.find("legend/5") == nullptr);  // one too many
  check_fault(legend_of({{State::kPrompt, "a"}, {State::kPrompt, "b"}}), "look alike");
  scene.find("legend/1")->fill = scene.find("legend/1")->edge = paint(Ink::kCell);
  check_fault(scene, "the sample legend/1 has a contrast");
  scene = good();
  scene.box("thin", {10, 80, 90, 20}, {}).edged(paint(Ink::kText, 0.6f), 1);  // nothing was found
  viz::legend(scene, {10, 150, 380, 18}, all);  // names only what is on the screen
  CHECK(scene.find("legend/1") != nullptr);
  for (const char* other : {"legend/0", "legend/4"}) CHECK(scene.find(other) == nullptr);
}

TEST_CASE("the slots of a block fill it, however large it is") {
  for (const int count : {1, 2, 4, 8, 16, 64}) {
    for (const viz::Room& room : {viz::Room{90, 60}, {300, 200}, {900, 700}}) {
      CAPTURE(count);
      CAPTURE(room.w);
      const viz::Place last = viz::slots_in({10, 20, room.w, room.h}, count).cell(count - 1);
      CHECK(last.right() == doctest::Approx(10 + room.w));
      const bool is_square = last.w < 1.2f * last.h;  // no taller than that
      CHECK((is_square || last.bottom() == doctest::Approx(20 + room.h)));
    }
  }
}

TEST_CASE("cells that are as large as they may be stand side by side before they stand in rows") {
  const viz::CellShape shape{.widest = 2.2f, .most_w = 300, .most_h = 160, .round_to = 4};
  CHECK(viz::fit(10, {0, 0, 2000, 1100}, shape).columns == 5);
  CHECK(viz::fit(10, {0, 0, 700, 1100}, shape).columns == 2);
}
