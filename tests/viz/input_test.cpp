// Input between two frames, and what is on the screen while a command takes its time.

#include <doctest/doctest.h>
#include <imgui.h>
#include <imgui_internal.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "tests/viz/example_page.h"
#include "viz/shell/headless.h"
#include "viz/shell/key_queue.h"
#include "viz/shell/mouse_queue.h"
#include "viz/shell/shell.h"

namespace {

/// A page with nothing done on it, under a mouse.
struct Pointed {
  Pointed() { ui.frame(); }
  void point_at(const char* name) {
    const viz::Probe::Control at = shell.probe().controls.at(name);
    ImGui::GetIO().MousePos = ImVec2(at.x + 5, at.y + 5);
  }
  void press() {
    for (const bool down : {true, false}) {
      ImGui::GetIO().MouseDown[0] = down;
      ui.frame();
    }
  }
  bool has_tooltip(int frames) {
    for (int i = 0; i < frames; ++i) ui.frame();
    return std::ranges::any_of(ImGui::GetCurrentContext()->Windows, [](const ImGuiWindow* one) {
      return one->Active && (one->Flags & ImGuiWindowFlags_Tooltip) != 0;
    });
  }
  int64_t value() { return shell.session().page().counter("value").value(); }
  viz::Shell shell{kvtest::pages_of<kvtest::CountingPage>, {}};
  viz::Headless ui{shell, 1280, 800, 1};
};

}  // namespace

TEST_CASE("keys that come between two frames are seen one after the other by a field") {
  using Event = viz::KeyQueue::Event;
  const Event down{.key = 1, .action = 1, .edits = true}, up{.key = 1}, other{.key = 2};
  const auto letter = [](char c) { return Event{.letter = static_cast<unsigned>(c)}; };
  const auto taken = [](viz::KeyQueue& keys, bool types, bool changes) {
    std::string all;
    for (const Event& event : keys.take(types, changes)) {
      all += event.letter != 0 ? static_cast<char>(event.letter) : event.action == 1 ? 'v' : '^';
    }
    return all;
  };
  viz::KeyQueue keys;
  for (const Event& event : {letter('a'), down, up, letter('b'), other}) keys.add(event);
  CHECK(taken(keys, true, false) == "av");  // Enter is down in one frame ..
  CHECK(taken(keys, true, false) == "^b^");
  CHECK(keys.empty());
  for (const Event& event : {down, up, letter(':'), letter('r'), down, up}) keys.add(event);
  CHECK(taken(keys, false, false) == "v^:");  // no field: all at once, but what is typed into one
  CHECK(taken(keys, false, true).empty());
  CHECK(taken(keys, true, false) == "rv");
  CHECK(taken(keys, false, true) == "^");  // a release does not wait: a key held down is repeated
  CHECK(taken(keys, false, false).empty());
  keys.add(letter('x'));
  for (int frame = 0; frame < 10; ++frame) CHECK(taken(keys, false, true).empty());
  CHECK(taken(keys, false, true) == "x");  // it waits, but not forever
}

TEST_CASE("each frame gets one change of a mouse button, at its place") {
  viz::MouseQueue mouse;
  mouse.moves(10, 20);
  for (const bool down : {true, false, true}) mouse.changes(0, down);
  mouse.moves(30, 40);
  mouse.changes(0, false);
  for (const bool down : {true, false, true, false}) {
    const auto change = mouse.take();
    REQUIRE(change.has_value());
    CHECK(change->down == down);
    CHECK(change->x == (mouse.empty() ? 30 : 10));
  }
  CHECK_FALSE(mouse.take().has_value());
}

TEST_CASE("what took long the last time has a sign on the screen while it runs") {
  struct SlowPage : kvtest::CountingPage {
    void check_invariants() const override { std::this_thread::sleep_for(wait); }
    std::chrono::milliseconds wait{300};
  };
  viz::Shell shell(kvtest::pages_of<SlowPage>, {});
  auto& page = static_cast<SlowPage&>(shell.session().page());
  viz::Headless ui(shell, 1280, 800, 1);
  const auto value = [&] { return page.counter("value").value(); };
  ui.works_off = false;
  ui.frame();
  ui.click("one");
  CHECK(value() == 1);
  CHECK_FALSE(shell.announces_work());  // nothing is known of it yet
  ui.click("one");
  CHECK(value() == 1);  // with the sign, before it is done
  CHECK(shell.announces_work());
  CHECK(shell.is_busy());  // so a browser draws the frame that does it
  page.wait = {};
  shell.work_off();
  CHECK(value() == 2);
  ui.click("one");
  CHECK(value() == 3);  // it is quick again
  CHECK_FALSE(shell.announces_work());
}

TEST_CASE_FIXTURE(Pointed, "Tab leads to each control that can be pressed, and Enter presses it") {
  const auto tab_to = [&](const char* name) {
    while (shell.takes_tab(false)) {
      ui.press_key(ImGuiKey_Tab);
      if (shell.probe().focused == name) return true;
    }
    return false;
  };
  ui.frame();
  CHECK_FALSE(shell.takes_tab(true));
  CHECK_FALSE(tab_to("undo"));  // it is disabled
  ui.press_key(ImGuiKey_Tab);   // leaves the page
  const auto before = ui.picture();
  CHECK(tab_to("one"));
  CHECK(ui.picture() != before);
  ui.press_key(ImGuiKey_Enter);
  CHECK(value() == 1);
  ui.press_key(ImGuiKey_LeftArrow);  // means what it does without a focus
  ui.type(' ');
  CHECK(value() == 0);
  CHECK(tab_to("redo"));
  ui.press_key(ImGuiKey_Enter);
  CHECK(value() == 1);
  ui.click("one");  // a click takes the focus away
  CHECK(shell.probe().focused.empty());
}

TEST_CASE_FIXTURE(Pointed, "where the mouse was pressed no tooltip covers what has come") {
  point_at("help");
  CHECK(has_tooltip(60));
  press();
  CHECK_FALSE(has_tooltip(60));
}

TEST_CASE_FIXTURE(Pointed, "a click on what is disabled says why at once") {
  REQUIRE_FALSE(shell.probe().controls.at("undo").disabled_because.empty());
  point_at("undo");
  CHECK_FALSE(has_tooltip(2));
  press();
  CHECK(has_tooltip(2));
  CHECK(has_tooltip(60));
  ui.click("one");
  point_at("undo");
  press();
  CHECK(shell.session().page().counter("value") == 0);
  CHECK_FALSE(has_tooltip(60));  // the click itself has disabled it
}

TEST_CASE_FIXTURE(Pointed, "Tab leads to the scrubber and to the speed, which the arrows change") {
  const auto tab_to = [&](const std::string& name) {
    for (int i = 0; i < 30 && shell.probe().focused != name; ++i) ui.press_key(ImGuiKey_Tab);
    return shell.probe().focused == name;
  };
  shell.load(viz::Scenario::parse("page 99\nsay \"One, and one.\"\nadd 1\nadd 1\n", "two"));
  shell.session().play_on();
  ui.frame();
  REQUIRE(tab_to("scrubber"));
  ui.press_key(ImGuiKey_LeftArrow);
  CHECK(value() == 1);
  REQUIRE(tab_to("speed"));
  const auto usual = ui.picture();
  ui.press_key(ImGuiKey_RightArrow);
  CHECK(ui.picture() != usual);
  CHECK(value() == 1);
  ui.press_key(ImGuiKey_LeftArrow);
  CHECK(ui.picture() == usual);
}
