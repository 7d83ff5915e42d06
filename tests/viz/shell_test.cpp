// The shell around a page: keys, films, the scrubber, motion; with a page about a number.

#include "viz/shell/shell.h"

#include <doctest/doctest.h>
#include <imgui.h>

#include <string>
#include <vector>

#include "common/error.h"
#include "tests/viz/example_page.h"
#include "viz/shell/headless.h"

namespace {

/// The same page about something else.
struct OtherPage : kvtest::CountingPage {
  OtherPage() : CountingPage("03") {}
};

constexpr auto make_pages = kvtest::pages_of<kvtest::CountingPage, OtherPage>;

std::vector<viz::Scenario> scenarios() {
  return {viz::Scenario::parse("page 99\nsay \"first comes one\"\nadd 1\nadd 2\nadd 4\n", "sums"),
          viz::Scenario::parse("page 03\nadd 3\n", "other")};
}

struct Fixture {
  explicit Fixture(viz::Outside outside = {})
      : shell(make_pages, scenarios(), std::move(outside)), ui(shell, 1280, 800, 1) {}
  int64_t value() { return shell.session().page().counter("value").value(); }
  const std::string& lesson() { return shell.session().page().info().lesson; }
  void key(int imgui_key, bool ctrl = false) { ui.press_key(imgui_key, ctrl); }
  viz::Shell shell;
  viz::Headless ui;
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a click on a film plays it, and closing it leads back") {
  ui.click("one");
  CHECK(value() == 1);
  ui.click("film/sums");
  CHECK(shell.session().playing);
  CHECK(shell.session().caption() == "first comes one");
  CHECK(value() == 0);  // on an empty page
  ui.frame(1);
  CHECK(value() == 1);
  CHECK_FALSE(shell.probe().controls.contains("film/sums"));  // the player has its place
  ui.click("one 0");
  CHECK(shell.session().page().selected() == "one 0");
  ui.click("close");
  CHECK(value() == 1);  // as before the film
  CHECK(shell.probe().controls.contains("film/sums"));
  ui.click("undo");
  CHECK(shell.session().scenario() != nullptr);
  key(ImGuiKey_Escape);
  CHECK(shell.session().scenario() == nullptr);
}

TEST_CASE_FIXTURE(Fixture, "keys mean the same on all pages, whatever was clicked last") {
  shell.load(scenarios()[0]);
  ui.frame();
  ui.click("undo");  // a button has had the mouse: Space must not press it again
  ui.click("redo");
  key(ImGuiKey_RightArrow);
  key(ImGuiKey_RightArrow);
  CHECK(value() == 3);
  key(ImGuiKey_LeftArrow);
  CHECK(value() == 1);
  key(ImGuiKey_End);
  CHECK(value() == 7);
  key(ImGuiKey_Home);
  CHECK(value() == 0);
  key(ImGuiKey_Z, true);
  CHECK(value() == 3);  // where the walk began
  key(ImGuiKey_Y, true);
  CHECK(value() == 0);
  key(ImGuiKey_Z);  // without Ctrl it means nothing
  CHECK(value() == 0);
  ui.type(' ');
  CHECK(shell.session().playing);
  ui.frame(1);
  ui.type(' ');
  CHECK_FALSE(shell.session().playing);
  key(ImGuiKey_RightArrow);
  ui.type('r');
  CHECK(value() == 0);
  key(ImGuiKey_Z, true);
  CHECK(value() == 3);  // one by playing, two by the key
  ui.type('3');
  CHECK(lesson() == "03");
  ui.type('m');
  CHECK_FALSE(shell.motion);
  ui.type('M');
  CHECK(shell.motion);
  const auto dark = ui.picture();
  ui.type('t');
  CHECK(shell.light);
  CHECK(ui.picture() != dark);
  ui.type('T');
  CHECK(ui.picture() == dark);
}

TEST_CASE_FIXTURE(Fixture,
                  "at its end a scenario is played again, and what was done without one not") {
  shell.load(scenarios()[0]);
  key(ImGuiKey_End);
  CHECK(value() == 7);
  ui.type(' ');
  CHECK(shell.session().playing);
  CHECK(value() == 0);
  ui.frame(1);
  CHECK(value() == 1);
  shell.session().undo();
  shell.select("03");
  CHECK(shell.session().try_run("add 1"));
  ui.type(' ');
  CHECK_FALSE(shell.session().playing);
  CHECK(value() == 1);
}

TEST_CASE_FIXTURE(Fixture, "a key that was down for less than a frame is taken all the same") {
  shell.load(scenarios()[0]);
  shell.press(ImGuiKey_RightArrow, false, false);
  shell.press(ImGuiKey_RightArrow, false, false);
  CHECK(shell.is_busy());
  ui.frame();
  CHECK(value() == 3);
  shell.press(ImGuiKey_Z, true, false);
  shell.press(ImGuiKey_Z, true, true);
  ui.frame();
  CHECK(value() == 3);
  CHECK_FALSE(shell.is_busy());  // so a window draws nothing until input comes
}

TEST_CASE("the command line completes what it can, and says what there is") {
  const viz::Help help{{"fork OLD NEW", "..."}, {"free NAME", "..."}, {"live TEXT", "..."}};
  CHECK(viz::completed(help, "l") == "live ");
  CHECK(viz::completed(help, "f") == "f");
  CHECK(viz::completed(help, "fo") == "fork ");
  CHECK(viz::completed(help, "x") == "x");
  CHECK(viz::completed(help, "fork A") == "fork A");
  CHECK(viz::matching(help, "f").size() == 2);
  CHECK(viz::matching(help, "fork A").size() == 1);
  CHECK(viz::matching(help, "forks A").empty());
}

TEST_CASE_FIXTURE(Fixture, "a command is typed below the page, and told like a click") {
  ui.type(':');
  ui.frame();
  ui.frame();
  for (const char c : std::string(":ad")) ui.type(c);  // the line is open: no colon in it
  key(ImGuiKey_Tab);
  ui.type('4');
  key(ImGuiKey_Enter);
  CHECK(value() == 4);
  ui.frame();
  ui.frame();
  key(ImGuiKey_UpArrow);  // the same again
  key(ImGuiKey_Enter);
  CHECK(value() == 8);
  CHECK(shell.session().num_steps() == 2);
  ui.frame();
  key(ImGuiKey_Escape);
  ui.frame();
  CHECK_FALSE(shell.probe().controls.contains("command"));
  ui.click("type");
  CHECK(shell.probe().controls.contains("command"));
  ui.frame();
  const auto before = ui.picture();
  ui.type('?');
  key(ImGuiKey_Enter);
  ui.frame();
  CHECK(ui.picture() != before);  // all commands are listed
  CHECK_FALSE(shell.session().log().back().error);
}

TEST_CASE_FIXTURE(Fixture, "Ctrl with + and - zooms, with C copies the picture") {
  for (const int pressed : {'+', '+', '-'}) shell.press(pressed, true, false);
  ui.frame();
  CHECK(shell.zoom == 1.125f);
  shell.press('0', true, false);
  shell.press('+', false, false);
  shell.load(scenarios()[0]);
  shell.press(ImGuiKey_C, true, false);
  ui.frame();
  CHECK(shell.zoom == 1);
  CHECK(std::string(ImGui::GetClipboardText()).starts_with("<svg"));
}

TEST_CASE("what is told before a page has opened is there afterwards") {
  struct Opening : kvtest::CountingPage {
    Opening() : CountingPage("98", {"add 1"}) {}
  };
  viz::Shell shell(kvtest::pages_of<Opening>, {});
  shell.tell("there is no page 77");
  viz::Headless ui(shell, 1280, 800, 1);
  ui.frame();
  CHECK(*shell.session().page().counter("value") == 1);
  CHECK(shell.notice() == "there is no page 77");
}

TEST_CASE_FIXTURE(Fixture, "a page is opened by its number, one digit soon after the other") {
  ui.type('3');
  CHECK(lesson() == "03");
  ui.type('9');  // there is no page 39, and none 9
  ui.type('9');
  CHECK(lesson() == "99");
  ui.type('3');
  for (int i = 0; i < 70; ++i) ui.frame();  // more than a second
  ui.type('9');
  CHECK(lesson() == "03");
}

TEST_CASE("films stand in the order of their scenarios, live runs last") {
  const auto scenario = [](const std::string& lines, const std::string& name) {
    return viz::Scenario::parse("page 99\n" + lines, name);
  };
  viz::Shell shell(make_pages, {scenario("order 1\nlive 3\n", "live"), scenario("add 1\n", "a"),
                                scenario("order 2\nadd 1\n", "b"),
                                scenario("order 1\ntitle \"Which?\"\nadd 1\n", "c")});
  const viz::Headless ui(shell, 1280, 800, 1);
  const auto x = [&](const char* film) { return shell.probe().controls.at(film).x; };
  CHECK(x("film/c") < x("film/b"));
  CHECK(x("film/b") < x("film/a"));
  CHECK(x("film/a") < x("film/live"));
  CHECK(scenario("order 1\ntitle Which?\nadd 1\n", "c").shown_title() == "Which?");
  CHECK_THROWS_AS(scenario("order 0\n", "x"), kv::UserError);
}

TEST_CASE("keys that are typed into a field do nothing else") {
  Fixture f({.open = [](const std::string&) -> viz::Scenario { kv::user_error("none"); }});
  f.ui.click("open");
  f.ui.click("load/file");
  for (const char c : std::string("3mr ?")) f.ui.type(c);
  CHECK(f.lesson() == "99");
  CHECK(f.shell.motion);
  CHECK_FALSE(f.shell.session().can_undo());
}

TEST_CASE("what is opened switches to its page, what is not says why, and both can be undone") {
  std::string wanted = "page 03\nadd 5\n";
  Fixture f({.keep = [&](const viz::Scenario& recorded) { return wanted = recorded.text(); },
             .open = [&](const std::string&) { return viz::Scenario::parse(wanted, "mine"); },
             .open_first = "mine.txt"});
  CHECK_THROWS_WITH(f.ui.click("record"), doctest::Contains("nothing has been done"));
  f.ui.click("open");
  f.ui.click("load");
  CHECK(f.lesson() == "03");
  f.ui.click("step");
  CHECK(f.value() == 5);
  f.ui.click("record");
  CHECK(wanted == "page 03\nadd 5\n");
  for (const char* name : {"undo", "undo"}) f.ui.click(name);
  CHECK(f.shell.session().scenario() == nullptr);
  wanted = "page 77\n";
  f.shell.open("x");
  CHECK(f.lesson() == "03");
  CHECK_THROWS_AS(f.shell.load(viz::Scenario::parse(wanted, "x")), kv::UserError);
}

TEST_CASE_FIXTURE(Fixture, "the scrubber goes to the step that is clicked, and undo comes back") {
  shell.load(scenarios()[0]);
  ui.frame();
  ui.click("step 2");
  CHECK(value() == 3);
  ui.click("step 3");
  CHECK(value() == 7);
  ui.click("step 1");
  CHECK(value() == 1);
  ui.click("undo");
  CHECK(value() == 0);
  CHECK(shell.session().scenario() != nullptr);
}

TEST_CASE_FIXTURE(Fixture,
                  "the picture moves for as long as it has to, at the speed of the player") {
  shell.load(scenarios()[0]);
  shell.session().step();
  ui.frame();
  const auto pictures = [&](double seconds) {
    ui.frame(seconds);
    return ui.picture();
  };
  shell.session().step();
  const auto begin = pictures(0.01);
  const auto middle = pictures(0.2);
  CHECK(middle != begin);
  const auto end = pictures(0.3);
  CHECK(end != middle);
  CHECK(pictures(0.3) == end);
  shell.motion = false;
  shell.session().step();
  const auto next = pictures(0.01);
  CHECK(next != end);
  CHECK(pictures(0.3) == next);  // at once
  shell.motion = true;
  shell.hold(0.5f);
  shell.session().undo();
  const auto held = pictures(0.01);
  CHECK(pictures(1) == held);
}
