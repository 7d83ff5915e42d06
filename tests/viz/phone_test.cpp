// The shell in a window as small as a phone's.

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/viz/example_page.h"
#include "viz/drawing/window_layout.h"
#include "viz/shell/headless.h"
#include "viz/shell/shell.h"

namespace {

constexpr auto make_pages = kvtest::pages_of<kvtest::CountingPage>;

struct OtherPage : kvtest::CountingPage {
  OtherPage() : CountingPage("03") {}
};

/// Its large button may have a key.
struct KeyedPage : kvtest::CountingPage {
  std::vector<viz::Button> actions() const override {
    return {{"more 1", "One", "add 1", "", key}};
  }
  static inline char key = 0;
};

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
    for (const char* name : {"play", "back", "step", "step 0", "step 2", "reset", "close"}) {
      CAPTURE(name);
      REQUIRE(shell.probe().controls.contains(name));
      const viz::Probe::Control& control = shell.probe().controls.at(name);
      CHECK(control.x + control.w <= wide);
      CHECK(control.h >= 44);
      for (const viz::Probe::Control& other : seen) {
        const bool beside = control.x >= other.x + other.w || other.x >= control.x + control.w;
        const bool below = control.y >= other.y + other.h || other.y >= control.y + control.h;
        CHECK((beside || below));
      }
      seen.push_back(control);
    }
    for (const auto& named : shell.probe().controls) {
      CAPTURE(named.first);
      if (named.second.is_button) CHECK(named.second.h >= 44);  // as large as a finger
    }
    const viz::Probe::Control& shape = shell.probe().controls.at("one 0");
    CHECK(shape.x + shape.w < wide);  // the picture is drawn smaller
  }
}

TEST_CASE("on a phone a picture is as wide as its place, and a finger pans it up and down") {
  for (const auto& size : {std::pair{390.0f, 844.0f}, {844, 358}, {760, 340}}) {
    const viz::WindowLayout layout = viz::window_layout(size.first, size.second);
    const viz::Room room = viz::picture_room(layout, 475);
    CHECK(room.w * viz::picture_part(layout) == doctest::Approx(layout.main.w - 13));  // its bar
    CHECK(viz::picture_part(layout) * 12 >= 11);
    CHECK(room.h >= 475);
  }
  viz::Shell shell(make_pages, {story()});
  shell.load(story());
  shell.session().step();
  viz::Headless ui(shell, 390, 844, 1);
  const float y = shell.probe().controls.at("one 0").y;
  CHECK_FALSE(shell.pans(195, 800));  // the player
  REQUIRE(shell.pans(195, 200));
  shell.pan(-50);
  ui.frame();
  ui.frame();
  CHECK(shell.probe().controls.at("one 0").y == doctest::Approx(y - 50));
  viz::Headless small(shell, 700, 520, 1);  // no phone: it has a scrollbar
  CHECK(shell.pans(195, 200));
  CHECK(shell.probe().controls.at("close").visible);
  viz::Headless window(shell, 1280, 800, 1);
  CHECK_FALSE(shell.pans(195, 200));  // all of it can be seen
}

TEST_CASE("on a phone held upright one finger scrolls the picture and all that is below it") {
  viz::Shell shell(kvtest::pages_of<kvtest::CountingPage, OtherPage>, {story()});
  viz::Headless phone(shell, 390, 640, 1);
  const auto& controls = shell.probe().controls;
  const auto y = [&](const char* name) { return controls.at(name).y; };
  phone.frame();
  CHECK_FALSE(controls.at("one").visible);
  CHECK_FALSE(shell.pans(195, y("down") + 1));  // it covers nothing of the page
  phone.click("down");                          // what is below is named, and leads there
  phone.frame();
  CHECK_FALSE(controls.contains("down"));
  for (const char* name : {"one", "film/story"}) CHECK(controls.at(name).visible);
  const float button = y("one"), film = y("film/story");
  REQUIRE(shell.pans(195, button, 1));
  CHECK_FALSE(shell.pans(195, button, -1));  // its end
  shell.pan(20);
  phone.frame();
  phone.frame();
  CHECK(y("one") == doctest::Approx(button + 20));
  CHECK(y("film/story") == doctest::Approx(film + 20));
  phone.click("one");  // a control stays below the finger
  for (int frame = 0; frame < 3; ++frame) phone.frame(0.05);
  CHECK(shell.session().page().counter("value") == 1);
  CHECK(y("one") == doctest::Approx(button + 20));
  phone.click("help");
  phone.frame();
  CHECK_FALSE(shell.pans(195, 300));  // the help lies over it
  phone.click("help");
  shell.pan(-20);
  phone.frame();
  phone.frame();
  phone.click("film/story");
  phone.frame();
  CHECK(controls.contains("down"));  // a film begins at the top of the page
  shell.pan(-900);
  phone.frame();
  phone.frame();
  phone.click("up");  // in its place
  phone.frame();
  CHECK(controls.contains("down"));
  shell.select("03");
  phone.frame();
  phone.frame();
  CHECK(controls.contains("down"));  // so does another page
}

TEST_CASE("on a phone, which has no keys, neither the buttons nor the help show any") {
  const auto drawn = [](char key, int width) {
    KeyedPage::key = key;
    viz::Shell shell(kvtest::pages_of<KeyedPage>, {});
    viz::Headless ui(shell, width, 844, 1);
    ui.frame();
    const std::vector<uint8_t> buttons = ui.picture();
    ui.click("help");
    ui.frame();
    return std::pair(buttons, ui.picture());
  };
  const auto with = drawn('O', 390), without = drawn(0, 390);
  CHECK(with.first == without.first);
  CHECK(with.second == without.second);
  CHECK(with.first != with.second);
  CHECK(drawn('O', 1280).first != drawn(0, 1280).first);
}

TEST_CASE("on a phone held sideways controls have room for a finger, beside the picture") {
  viz::Shell shell(make_pages, {story()});
  shell.load(story());
  shell.session().step();
  for (const auto& size : {std::pair{844, 358}, {760, 340}}) {
    const auto w = size.first, h = size.second;
    CAPTURE(w);
    const viz::WindowLayout layout =
        viz::window_layout(static_cast<float>(w), static_cast<float>(h));
    CHECK(layout.main.h > 0.7f * static_cast<float>(h));
    CHECK(layout.main.right() < layout.side.x);
    CHECK(layout.side.bottom() < layout.sentence.y);
    CHECK(layout.sentence.bottom() < layout.player.y);
    const viz::Headless phone(shell, w, h, 1);
    for (const char* name : {"one", "play", "back", "step", "step 2", "reset", "close"}) {
      CAPTURE(name);
      REQUIRE(shell.probe().controls.contains(name));
      CHECK(shell.probe().controls.at(name).visible);
    }
    for (const auto& named : shell.probe().controls) {
      CAPTURE(named.first);
      if (named.second.is_button) CHECK(named.second.h >= 44);
    }
  }
  CHECK_FALSE(viz::window_layout(1280, 400).on_phone);  // a low window of a desktop
}

TEST_CASE("on a phone the picture scrolls to what has changed") {
  const viz::Scenario counts =
      viz::Scenario::parse("page 99\nsay \"One by one.\"\nadd 3\nadd 1\nadd 4\nadd 1\n", "counts");
  for (const auto& size : {std::pair{390, 844}, {844, 358}}) {
    const auto w = size.first, h = size.second;
    CAPTURE(w);
    viz::Shell shell(make_pages, {counts});
    shell.load(counts);
    viz::Headless phone(shell, w, h, 1);
    const auto sees = [&](const std::string& name) {
      const viz::Probe::Control& control = shell.probe().controls.at(name);
      return control.visible && control.x + control.w <= static_cast<float>(w);
    };
    for (const std::string newest : {"one 0", "one 3", "", "one 8"}) {  // of four: too tall
      CAPTURE(newest);
      shell.session().step();
      for (int frame = 0; frame < 3; ++frame) phone.frame();
      if (!newest.empty()) CHECK(sees(newest));
    }
    shell.session().go_to_step(0);
    phone.frame();
    shell.session().step();
    phone.frame(0.05);  // while the picture moves
    if (w > h) CHECK_FALSE(sees("one 0"));
    for (int frame = 0; frame < 40 && shell.is_busy(); ++frame) phone.frame(0.05);
    CHECK(sees("one 0"));
    CHECK_FALSE(shell.is_busy());
  }
}
