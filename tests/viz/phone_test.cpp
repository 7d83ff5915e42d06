// The shell in a window as narrow as a phone's.

#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "tests/viz/example_page.h"
#include "viz/drawing/layout.h"
#include "viz/shell/headless.h"
#include "viz/shell/shell.h"

namespace {

std::vector<std::unique_ptr<viz::Page>> make_pages() {
  std::vector<std::unique_ptr<viz::Page>> pages;
  pages.push_back(std::make_unique<kvtest::CountingPage>());
  return pages;
}

viz::Scenario story() { return viz::Scenario::parse(kvtest::kStory, "story"); }

}  // namespace

TEST_CASE("in a window as narrow as a phone nothing lies on anything else") {
  viz::Shell shell(make_pages, {story()});
  shell.load(story());
  shell.session().step();
  for (const float wide : {560.0f, 390.0f, 360.0f}) {
    CAPTURE(wide);
    viz::Headless phone(shell, static_cast<int>(wide), 844, 1);
    std::vector<viz::Probe::Control> seen;
    for (const char* name : {"play", "back", "step", "step 0", "step 2", "reset", "cards"}) {
      CAPTURE(name);
      REQUIRE(shell.probe().controls.contains(name));
      const viz::Probe::Control& control = shell.probe().controls.at(name);
      CHECK(control.x + control.w <= wide);
      for (const viz::Probe::Control& other : seen) {
        const bool beside = control.x >= other.x + other.w || other.x >= control.x + control.w;
        const bool below = control.y >= other.y + other.h || other.y >= control.y + control.h;
        CHECK((beside || below));
      }
      seen.push_back(control);
    }
    CHECK_FALSE(shell.probe().controls.contains("undo"));
    for (const auto& named : shell.probe().controls) {
      CAPTURE(named.first);
      if (named.second.is_button) CHECK(named.second.h >= 32);  // as large as a finger
    }
    const viz::Probe::Control& shape = shell.probe().controls.at("one 0");
    CHECK(shape.x + shape.w < wide);  // the picture is drawn smaller
  }
}

TEST_CASE("on a phone letters can be read, and a finger pans the picture") {
  const viz::Place main = viz::window_layout(390, 844).main;
  CHECK(viz::picture_part(main) * 12 >= 11);
  CHECK(viz::picture_room(main).h >= 475);
  viz::Shell shell(make_pages, {story()});
  shell.load(story());
  shell.session().step();
  viz::Headless ui(shell, 390, 844, 1);
  const float x = shell.probe().controls.at("one 0").x;
  CHECK_FALSE(shell.pans(195, 800));  // the player
  REQUIRE(shell.pans(195, 200));
  shell.pan(-50, 0);
  ui.frame();
  ui.frame();
  CHECK(shell.probe().controls.at("one 0").x == doctest::Approx(x - 50));
  viz::Headless window(shell, 1280, 800, 1);
  CHECK_FALSE(shell.pans(195, 200));  // all of it can be seen
}

TEST_CASE("on a phone the first screen takes the room of the page's buttons, too") {
  viz::Shell shell(make_pages, {story()});
  viz::Headless ui(shell, 390, 844, 1);
  CHECK_FALSE(shell.probe().controls.contains("one"));
  CHECK(shell.probe().controls.at("scenario/story").h > 300);
  ui.click("start");
  CHECK(shell.probe().controls.contains("one"));
}
