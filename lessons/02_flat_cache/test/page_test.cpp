// The page of lesson 02, without a window: which requests wait, which holes are tried, what fields
// say.

#include <doctest/doctest.h>

#include <string>

#include "lessons/02_flat_cache/page/memory.h"
#include "lessons/02_flat_cache/page/scene.h"
#include "tests/viz/fake_ui.h"
#include "viz/drawing/layout.h"

namespace lesson02 {
std::unique_ptr<viz::Page> make_page(const viz::PageContext& context);
}

TEST_CASE("what fits nowhere waits, and is tried again when slots come back") {
  lesson02::Reservations range;
  range.reserve("A", 1024);
  range.reserve("B", 2048);
  range.reserve("C", 1024);
  CHECK(range.num_waiting() == 0);
  CHECK(range.reserve("D", 1500).find("needs 1,500 slots, the largest hole has 0") !=
        std::string::npos);
  CHECK(range.searches().at(0).too_small.empty());  // there is no hole
  CHECK(range.release("A").find("D waits") != std::string::npos);
  REQUIRE(range.searches().size() == 1);
  CHECK(range.searches()[0].too_small == std::vector<lesson02::SlotRange>{{0, 1024}});
  range.reserve("E", 3000);
  CHECK(range.num_waiting() == 2);
  CHECK(range.first_waiting()->name == "D");
  CHECK(range.release("B").find("D reserves 1,500 slots, 0 to 1,499") != std::string::npos);
  REQUIRE(range.searches().size() == 2);
  CHECK(range.searches()[0].hole == lesson02::SlotRange{0, 3072});
  CHECK_FALSE(range.searches()[1].hole);  // E: 1,572 are left
  CHECK(range.first_waiting()->name == "E");
  CHECK(range.release("E") == "E waits no longer");
  CHECK(range.num_waiting() == 0);
  CHECK(range.arena().total_free() == 4096 - 1500 - 1024);
}

TEST_CASE("a request that does not fit is seen over each hole, and the reason is told") {
  lesson02::Reservations range;
  for (const char* name : {"A", "B", "C", "D"}) range.reserve(name, 1024);
  range.release("A");
  range.release("C");
  range.reserve("E", 1500);
  const viz::Scene scene = lesson02::range_scene({860, 420}, range);
  for (const char* hole : {"hole 0", "hole 2048"}) {
    const float x = scene.find(hole)->at.x;
    CHECK(std::ranges::count_if(scene.ghosts(), [&](const viz::Scene::Ghost& ghost) {
            return ghost.shape.at == ghost.to && ghost.to.x == x &&
                   ghost.shape.pattern == viz::Pattern::kCrossed;
          }) == 1);
  }
  CHECK(scene.find("reason/text 0") != nullptr);
  CHECK(scene.find("request E")->at.bottom() < scene.find("request B")->at.y);  // in the tray
  CHECK(scene.find("free")->text == "2,048 slots free, if they were one piece");
  range.release("B");
  CHECK(lesson02::range_scene({860, 420}, range).find("free")->text ==
        "1,572 slots free, in one piece");
}

TEST_CASE("fields and buttons follow the state") {
  const auto page = lesson02::make_page({});
  kvtest::FakeUi ui(*page);
  CHECK(ui.buttons().at("resize").command == "resize 4 1024");
  CHECK(ui.has("0/append 16"));
  ui.run("resize 1 2048");
  page->select("slab 3");  // it is gone
  ui.type("", 0);          // draws the page again
  ui.click("slab 0/fill");
  CHECK(ui.buttons().at("resize").command == "resize 1 2048");
  CHECK(ui.reason("0/append 1") == "0 slots left of 2,048");
  ui.click("show/range");
  CHECK(ui.reason("show/range") == "you are looking at it");
  ui.click("reserve");
  CHECK(ui.has("release/A"));
  CHECK_FALSE(ui.has("slab 0/fill"));
}

TEST_CASE("many slabs, and many requests, have legible pictures") {
  const auto page = lesson02::make_page({});
  kvtest::FakeUi ui(*page);
  ui.run("resize 16 8192");
  ui.run("append 7 4000");
  for (const std::string& fault : viz::layout_faults(*page)) FAIL_CHECK(fault);
  ui.run("show range");
  ui.type("", 0);
  for (int i = 0; i < 26; ++i) ui.click("reserve");
  ui.run("release B");
  for (const std::string& fault : viz::layout_faults(*page)) FAIL_CHECK(fault);
}

TEST_CASE("a request, and a hole, of a slot or two has a legible picture") {
  const auto page = lesson02::make_page({});
  kvtest::FakeUi ui(*page);
  for (const char* line : {"show range", "reserve A 1", "reserve B 4090", "reserve C 40"}) {
    ui.run(line);
    for (const std::string& fault : viz::layout_faults(*page)) FAIL_CHECK(fault);
  }
}
