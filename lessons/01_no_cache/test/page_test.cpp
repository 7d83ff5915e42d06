// The picture of lesson 01's page, without a window.

#include <doctest/doctest.h>

#include <numeric>
#include <string>

#include "lessons/01_no_cache/page/scene.h"
#include "viz/drawing/layout.h"
#include "viz/drawing/text_room.h"

namespace {

/// Passes like the engine's: a prompt, and one token more in each.
lesson01::TriangleView run(int prompt, int passes, size_t seen) {
  lesson01::TriangleView view{.passes = std::vector<int>(passes),
                              .words = std::vector<std::string>(prompt + passes, "word"),
                              .seen = seen};
  std::iota(view.passes.begin(), view.passes.end(), prompt);
  return view;
}

}  // namespace

TEST_CASE("the triangle fits its room, whatever the number of passes") {
  for (const int prompt : {1, 4, 13, 100}) {
    for (const int passes : {1, 2, 5, 6, 17, 40, 400}) {
      for (const viz::Room& room : {viz::Room{560, 330}, {860, 420}, {2300, 1200}, {357, 700}}) {
        CAPTURE(prompt);
        CAPTURE(passes);
        CAPTURE(room.w);
        const viz::Scene scene = lesson01::triangle_scene(room, run(prompt, passes, 0));
        for (const std::string& fault : viz::layout_faults(scene)) FAIL_CHECK(fault);
      }
    }
  }
}

TEST_CASE("what is computed again looks different from what is new, in the same hue or none") {
  const viz::Scene scene = lesson01::triangle_scene({860, 420}, run(4, 3, 2));
  const auto pattern = [&](const char* id) { return scene.find(id)->pattern; };
  CHECK(pattern("row 1/3") == viz::Pattern::kPlain);
  CHECK(pattern("row 3/4") == viz::Pattern::kHatched);
  CHECK(pattern("row 3/5") == viz::Pattern::kPlain);
  CHECK(scene.find("row 3/6") == nullptr);
  // So do the bars: 6 of 15 rows are needed, and the others are computed again.
  CHECK(pattern("computed/bar") == viz::Pattern::kPlain);
  CHECK(pattern("computed/bar/again") == viz::Pattern::kHatched);
  CHECK(scene.find("computed/bar")->at.w == scene.find("needed/bar")->at.w);
  CHECK(scene.find("computed/bar/again")->at.w ==
        doctest::Approx(1.5f * scene.find("needed/bar")->at.w));
  CHECK(lesson01::triangle_scene({860, 420}, run(4, 1, 0)).find("computed/bar/again") == nullptr);
  CHECK(scene.find("computed 15") != nullptr);  // 4 + 5 + 6
  CHECK(scene.find("needed 6") != nullptr);
  // A row is computed from left to right, after what was there has moved.
  CHECK(scene.find("row 2/0")->when.end <= scene.find("row 3/0")->when.begin);
  CHECK(scene.find("row 3/0")->when.begin < scene.find("row 3/5")->when.begin);
}

TEST_CASE("no number is larger than a window's largest font, which would blur it") {
  const viz::Scene scene = lesson01::triangle_scene({2200, 1300}, run(4, 3, 2));
  CHECK(scene.find("computed 15")->size == viz::kLargest);
  for (const viz::Shape& shape : scene.shapes()) {
    CAPTURE(shape.id);
    CHECK(shape.size <= viz::kLargest);
  }
}
