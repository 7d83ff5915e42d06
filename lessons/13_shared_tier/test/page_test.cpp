// The page: blocks that travel, are damaged and poisoned, in the lesson's own classes.

#include "tests/support/readable.h"  // before the checks

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "page/page.h"
#include "tests/viz/page_fixture.h"
#include "viz/drawing/layout.h"
#include "viz/drawing/window_layout.h"

namespace {

using kvtest::kPageContext;

struct Fixture : kvtest::PageFixture {
  Fixture() : PageFixture(std::make_unique<lesson13::SharedTierPage>(kPageContext)) {}

  /// Server one has computed three blocks of A.
  void compute_a() { run({"submit one A 14 1", "pass one 2"}); }
  void ask_two() { run({"submit two A 14 1", "pass two 3"}); }
  /// Blocks that travel to a shelf with the last command, each with its label.
  auto num_coming(const std::string& shelf) {
    return std::ranges::count_if(picture().ghosts(), [&](const viz::Scene::Ghost& ghost) {
      return ghost.shape.id.starts_with(shelf) && ghost.shape.id.ends_with("/words");
    });
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "what one server has computed, the other one loads") {
  compute_a();
  CHECK(value("put") == 3);
  CHECK(value("values") == 3);
  CHECK(value("one.computed") == 14);
  CHECK(num_coming("1/") == 3);
  ask_two();
  CHECK(num_coming("2/") == 3);
  CHECK(num_coming("1/") == 0);
  CHECK(value("A.found") == 12);
  CHECK(value("A.ended") == 1);
  CHECK(value("two.computed") == 2);
}

TEST_CASE_FIXTURE(Fixture, "the ends of the names can be read in a small window, too") {
  compute_a();
  const viz::WindowLayout layout = viz::window_layout(1024, 640);
  const viz::Scene scene = page.scene({layout.main.w, layout.main.h});
  const auto is_end = [](const viz::Shape& one) {
    return one.id.starts_with("1/block ") && one.id.find("/foot ") != std::string::npos;
  };
  CHECK(std::ranges::count_if(scene.shapes(), is_end) == 3);
}

TEST_CASE_FIXTURE(Fixture, "a choice is lit only if all of it holds") {
  run("pool 10 secret 1");
  ui.select("");  // draws it
  CHECK(ui.lit("pool").empty());
  ui.click("pool secret");
  CHECK(ui.lit("pool") == std::vector<std::string>{"pool secret"});
}

TEST_CASE_FIXTURE(Fixture, "a damaged value and one that was evicted end the prefix") {
  compute_a();
  run("change damage A1");
  ask_two();
  CHECK(value("damaged") == 1);
  CHECK(value("A.found") == 4);
  CHECK(num_coming("2/") == 1);  // it computes the others
  CHECK(num_coming("1/") == 1);  // and puts a whole A1
  run({"pool 10 open 0"});
  compute_a();
  run("change lose A0");
  ask_two();
  CHECK(value("A.found") == 0);
  CHECK(value("values") == 3);  // put again
}

TEST_CASE_FIXTURE(Fixture, "names that are asked for are drawn, and what comes of them") {
  compute_a();
  run({"change damage A1", "submit two A 14 1"});
  CHECK(kvtest::shape(picture(), "trip/A1/name").text == "f2d6 ?");
  run("pass two");
  CHECK(kvtest::shape(picture(), "trip/A0/name").text == "\u2713");
  CHECK(kvtest::shape(picture(), "trip/A1/name").text == "\u2717 refused");
  CHECK(picture().find("trip/A2") == nullptr);  // what comes after it is of no use
}

TEST_CASE_FIXTURE(Fixture, "poison is believed, unless there is a secret or a check") {
  compute_a();
  const auto num_marked = [&] {
    return std::ranges::count(picture().shapes(), viz::paint(viz::Ink::kError),
                              [](const viz::Shape& shape) { return shape.edge; });
  };
  const auto legend = num_marked();
  run("change poison A1");
  CHECK(num_marked() == legend);                                      // no server could know
  CHECK(kvtest::shape(picture(), "1/block 2").fill != viz::soft(0));  // but it is not A's
  ask_two();
  CHECK(value("A.found") == 12);
  CHECK(value("damaged") == 0);
  CHECK(num_marked() == legend + 2);  // but the page does: the block, and what a mark means
  run("pool 10 secret 0");
  compute_a();
  run("change poison A1");
  ask_two();
  CHECK(value("damaged") == 1);
  CHECK(value("A.found") == 4);
  run("pool 10 open 1");
  compute_a();
  run("change poison A1");
  ask_two();
  CHECK(value("poisoned") == 1);
  CHECK(value("A.found") == 0);
}

TEST_CASE_FIXTURE(Fixture, "without the store everything is computed, and nothing is put") {
  run("store gone");
  compute_a();
  CHECK(value("put") == 0);
  CHECK(value("not_put") == 3);
  CHECK(value("unreachable") == 1);
  run("store back");
  ask_two();
  CHECK(value("A.found") == 0);
  CHECK(value("put") == 3);
}

TEST_CASE_FIXTURE(Fixture, "what cannot be done is refused and changes nothing") {
  check_refused("pass one", "this server has nothing to do");
  check_refused("change damage A0", "the store has no such block");
  check_refused("submit one A 100 4", "the pool has 8");
  run("submit one A 14 1");
  check_refused("submit two A 14 1", "a request of A is there");
  check_refused("pass two", "this server has nothing to do");
}

TEST_CASE_FIXTURE(Fixture, "its buttons work, and a value that is selected can be changed") {
  ui.click("submit");
  ui.click("pass one");
  ui.click("pass one");
  ui.select("value A1");
  ui.click("damage");
  ui.click("lose");
  CHECK(value("values") == 2);
  ui.click("store gone");
  ui.click("pool secret");
  CHECK(value("values") == 0);
}

TEST_CASE_FIXTURE(Fixture, "the filled button is what comes next, and none that is refused") {
  CHECK(ui.filled() == "new one");
  ui.click("new one");
  CHECK(ui.filled() == "pass");
  while (ui.filled() == "pass") ui.click("pass");
  CHECK(ui.filled() == "same two");  // which has nothing of it
  ui.click("same two");
  while (ui.filled() == "pass") ui.click("pass");
  CHECK(value("A.found") == 12);
  CHECK(ui.filled() == "new one");
  for (const char* name : {"B", "C", "D", "E", "F"}) {
    run({std::string("submit two ") + name + " 14 1", "pass two 2"});
  }
  ui.select("");                    // draws it
  CHECK(ui.filled() == "new one");  // there are six texts: the first one comes again
}
