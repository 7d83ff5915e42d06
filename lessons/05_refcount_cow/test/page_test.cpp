// The page's commands and buttons: what they do to the block manager, what they refuse, and what
// the page's own check catches.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lessons/05_refcount_cow/page/simulator.h"
#include "tests/viz/page_fixture.h"
#include "viz/drawing/window_layout.h"

namespace lesson05 {
std::unique_ptr<viz::Page> make_page(const viz::PageContext& context);
}

namespace {

using lesson05::Simulator;
using Names = std::vector<std::string>;

struct Fixture : kvtest::PageFixture {
  Fixture() : PageFixture(lesson05::make_page(kvtest::kPageContext)) {}

  /// "A/free" is there when A is selected.
  void click(std::initializer_list<const char*> names) {
    for (const std::string name : names) {
      if (name.find('/') == 1) ui.select(name.substr(0, 1));
      ui.click(name);
    }
  }
};

}  // namespace

TEST_CASE("every slot holds what its sequence wrote") {
  Simulator simulator(8, 4);
  simulator.add("A");
  simulator.append(Names{"A"}, 6);
  simulator.fork("A", Names{"B"});
  for (const char* name : {"A", "B"}) simulator.append(Names{name}, 1);
  simulator.check();
  const auto text = [&](const char* name, int token) {
    return simulator.text(simulator.table(name).slot(token));
  };
  for (const char* name : {"A", "B"}) CHECK(text(name, 5) == "it");
  CHECK(text("A", 6) == "snowed");
  CHECK(text("B", 6) == "rained");
  simulator.fork("B", Names{"C"});
  simulator.append(Names{"C"}, 7);
  CHECK(text("C", 6) == "rained");
  CHECK(text("C", 7) == "so");
  CHECK(text("C", 13) == "while");  // its own text is told: it goes on with the next but one
}

TEST_CASE_FIXTURE(Fixture, "what happened is said in plain words") {
  run("new A");
  CHECK(run("append A 16") == "A grows by 16 tokens: 4 new blocks");
  CHECK(run("fork A B") ==
        "B now shares the 4 blocks of A, and nothing is copied; 4 saved by sharing");
  CHECK(run("fork A C D") ==
        "C, D now share the 4 blocks of A, and nothing is copied; 12 saved by sharing");
  CHECK(run("free D") == "D ends and gives 0 blocks back to the pool; others hold 4");
  CHECK(run("append A 1") == "A grows by 1 token: 1 new block");
  CHECK(run("append A 1") ==
        "A grows by 1 token: no new block; A alone holds block 4, so nothing is copied");
  run("fork A E");
  CHECK(run("append E 2") ==
        "E grows by 2 tokens: 1 new block; block 4 was shared, so it was copied to block 5 first");
}

TEST_CASE_FIXTURE(Fixture, "wrong commands are refused and change nothing") {
  check_refused("append all 1", "there is no sequence");
  check_refused("free A", "there is no sequence A");
  run("new A");
  check_refused("new A", "there is a sequence A already");
  check_refused("new a-b", "letters and digits");
  check_refused("new all", "not all");
  check_refused("fork A B B", "there is a sequence B already");
  check_refused("fork A A", "there is a sequence A already");
  check_refused("append B 1", "there is no sequence B; there are A");
  for (const char* line : {"append A",     "append A 0",     "append A -1",
                           "append A x",   "append A 1 2",   "append A 99999999999999999999",
                           "write A",      "write A \"\"",   "write A \" \"",
                           "write A a b",  "fork A",         "new",
                           "free",         "free A B",       "resize 64",
                           "resize 0 16",  "resize 4097 16", "resize 64 0",
                           "resize 64 12", "resize 64 512",  "step",
                           "stop",         "live",           "live 4",
                           "live 0 \"a\"", "live 9 \"a\"",   "live 4 \"\"",
                           "live beams 4", "live 4 \"a\" 0", "explode A"}) {
    check_refused(line, "");
  }
  for (int i = 1; i < Simulator::kMaxSequences; ++i) run("fork A " + viz::letters(i));
  check_refused("new X1", "there are 64 of at most 64 sequences");
  check_refused("fork A X1", "there are 64 of at most 64 sequences");
}

TEST_CASE_FIXTURE(Fixture, "what the pool cannot hold is refused with both numbers") {
  run({"resize 3 16", "new A", "append A 40", "fork A B"});
  check_refused("append A 1", "needs 1 block, 0 are free");  // for the copy
  check_refused("append all 1", "needs 1 block, 0 are free");
  run({"resize 4 16", "new A", "new B", "append all 16"});
  check_refused("append all 17", "needs 4 blocks, 2 are free");
  run("resize 2 16");
  check_refused("live 4 \"Once upon a time\" 64", "the pool has 2");
}

TEST_CASE_FIXTURE(Fixture, "a live run leaves the simulator as it was and repeats to the bit") {
  run({"new A", "append A 20"});
  const std::string before = state();
  std::string first;
  for (int round = 0; round < 2; ++round) {
    run("live 3 \"Once upon a time there was a dog\" 12");
    check_refused("append A 1", "`stop`");
    check_refused("live 2 \"a\"", "`stop`");
    std::string story;
    for (int i = 0; i < 20; ++i) story += run("step") + state();
    if (round == 0) first = story;
    CHECK(story == first);
    run("stop");
    CHECK(state() == before);
  }
  run({"live beams 3 \"Once upon a time\" 8", "step 100"});
  CHECK(value("used") == 0);
  check_refused("step", "has ended");
  page.reset();  // while the run is there
  CHECK(value("live") == 0);
}

TEST_CASE_FIXTURE(Fixture,
                  "the filled button tells a story: who copies, who need not, what a free leaves") {
  const auto asked = [&] {
    const std::vector<viz::Button> row = page.actions();
    return std::ranges::find_if(row, &viz::Button::asked)->command;
  };
  run({"new A", "write A \"The sky was dark and it\""});
  const std::pair<std::string, int> story[] = {
      {"fork A B", 0},     {"write B rained", 1}, {"write A snowed", 1}, {"free B", 1},
      {"fork A B C D", 1}, {"write D then", 2},   {"write C so", 3},     {"write B but", 4},
      {"write A and", 4},  {"free D", 4},         {"free C", 4},         {"free B", 4},
      {"fork A B C D", 4}};
  for (const auto& [command, copies] : story) {
    CHECK(asked() == command);
    run(asked());
    CHECK(value("copies") == copies);
  }
  run({"resize 4 4", "new A", "append A 8", "fork A B"});  // a full block is not written
  for (const std::string command : {"write B foxes", "write A all", "free B", "fork A B"}) {
    CHECK(asked() == command);
    run(asked());
  }
  run({"resize 2 4", "new A"});
  CHECK(asked() == "write A The");
  run({"append A 8", "fork A B"});
  CHECK(asked() == "free B");  // no block is free
}

TEST_CASE_FIXTURE(Fixture, "buttons are for the sequence that was clicked, unless it is gone") {
  run({"new A", "append A 6"});
  click({"A/fork 1", "A/append 1"});
  CHECK(picture().find("A/card")->thickness > picture().find("B/card")->thickness);
  click({"A/fork 1", "B/free"});
  CHECK(ui.has("C/free"));
  CHECK(picture().find("C/card")->selects == "C");
  click({"C/free", "A/free", "new"});
}

TEST_CASE("siblings go on with different words, wherever they fork") {
  for (size_t place = 0; place < 40; ++place) {
    CAPTURE(place);
    std::set<std::string> words;
    for (int hue = 0; hue < viz::kNumHues; ++hue) {
      words.insert(Simulator::next_word({{"A", hue}, 0, Names(place)}));
    }
    CHECK(words.size() == viz::kNumHues);
  }
}

TEST_CASE_FIXTURE(Fixture, "four beams take four clicks, and what they save is counted above") {
  const auto boxes = [&] {
    std::string all;
    for (const viz::Counter& one : page.counters()) {
      if (!one.label.empty()) all += fmt::format("{} {}, ", one.label, one.value);
    }
    return all;
  };
  click({"resize 64 16", "new", "A/append 64"});
  CHECK(boxes() == "free 60, used 4, shared 0, ");
  click({"A/fork 3"});
  CHECK(boxes() == "free 60, used 4, shared 4, as copies 16, saved 12, ");
  run({"resize 16 4", "new A", "write A dark", "fork A B C D"});  // and can be read on a phone
  CHECK(kvtest::shape(page.scene({357, page.info().tall}), "slot 0/0/token").text == "dark");
}

TEST_CASE_FIXTURE(Fixture, "buttons that would be refused are disabled and say why") {
  CHECK_FALSE(ui.has("all/append 1"));
  CHECK_FALSE(ui.has("A/free"));
  click({"new"});
  CHECK(ui.reason("A/fork 3").empty());
  ui.type("append/TOKENS", 56);
  click({"A/append"});
  ui.type("append/TOKENS", 12);
  CHECK(ui.reason("A/append") == "needs 3 blocks, 2 are free");
  CHECK_THROWS_AS(ui.click("A/append"), std::logic_error);
  ui.type("append/TOKENS", 8);
  click({"A/append", "A/fork 1"});
  CHECK(ui.reason("B/append 1") == "needs 1 block, 0 are free");
  CHECK(ui.reason("all/append 1") == "needs 2 blocks, 0 are free");
  CHECK(ui.reason("resize 64 16").empty());  // a new pool always works
}

TEST_CASE_FIXTURE(Fixture, "a fork slides out of its parent's table, and then the counts rise") {
  run({"resize 4 4", "new A", "write A \"The sky was dark and it\"", "fork A B"});
  const viz::Scene forked = picture();
  for (const char* part : {"card", "name", "entry 0", "entry 1/id", "link 1"}) {
    CAPTURE(part);
    CHECK(forked.find(std::string("B/") + part)->from == std::string("A/") + part);
  }
  const viz::Shape &count = *forked.find("block 1/ref"), &entry = *forked.find("B/entry 1");
  CHECK(count.text == "\u00D72");
  CHECK(count.when.begin >= entry.when.end);
  CHECK(forked.ghosts().empty());  // nothing is copied
  for (const char* band : {"slot 0/3/hue 0", "slot 0/3/hue 1", "slot 1/1/hue 1"}) {
    CHECK(forked.find(band) != nullptr);
  }
  CHECK(forked.find("slot 1/2/hue 0") == nullptr);  // empty
}

TEST_CASE_FIXTURE(Fixture, "a copy is seen slot by slot, then the entry flips, the count falls") {
  run({"resize 4 4", "new A", "write A \"The sky was dark and it\"", "fork A B", "write B rained"});
  const viz::Scene copied = picture();
  CHECK(copied.find("B/entry 1/id")->text == "2");
  CHECK(copied.find("slot 2/0/token")->text == "and");
  CHECK(copied.find("slot 2/2/token")->text == "rained");
  float landed = 0;
  for (int i = 0; i < 2; ++i) {  // a ghost goes from each slot of the source to its copy
    const viz::Place from = copied.find("slot 1/" + std::to_string(i))->at,
                     to = copied.find("slot 2/" + std::to_string(i))->at;
    int travel = 0;
    for (const viz::Scene::Ghost& ghost : copied.ghosts()) {
      if (!(ghost.shape.at == from && ghost.to == to)) continue;
      ++travel;
      CHECK(ghost.shape.when.begin >= landed - 0.2f);
      landed = std::max(landed, ghost.shape.when.end);
    }
    CHECK(travel == 2);  // its ground and its paint
  }
  CHECK(copied.find("B/entry 1/id")->when.begin >= landed);
  CHECK(copied.find("block 1/ref")->when.begin >= landed);
  CHECK(copied.find("block 2")->when.end <= copied.find("slot 2/0/token")->when.begin);
  CHECK(copied.find("slot 2/2/token")->when.begin >= copied.find("block 1/ref")->when.end);
  CHECK(copied.find("A/entry 1")->from.empty());

  run("write A snowed");  // the last holder
  const viz::Scene written = picture();
  for (const viz::Scene::Ghost& ghost : written.ghosts()) CHECK(ghost.shape.at == ghost.to);
  CHECK(written.find("slot 1/2/token")->from == "A/name");
}

TEST_CASE_FIXTURE(Fixture, "on a phone tables and pool are seen at once; no line covers a block") {
  const viz::WindowLayout phone = viz::window_layout(390, 812, {.actions = true});
  const viz::Room room = viz::picture_room(phone, page.info().tall);
  run({"new A", "append A 20", "fork A B C D", "append B 1"});
  CHECK(page.scene(room).find("block 7")->at.bottom() <= phone.main.h);
  for (const viz::Scene& scene : {page.scene(room), picture()}) {
    for (const viz::Shape& line : scene.shapes()) {
      if (line.kind != viz::Shape::Kind::kLine) continue;
      const bool above = line.at.bottom() <= scene.find("block 0")->at.y;
      for (const char* block : {"block 0", "block 1", "block 2", "block 3"}) {
        const viz::Place& at = scene.find(block)->at;
        const float end = line.at.right();
        CHECK((above || std::max(line.at.x, end) < at.x || std::min(line.at.x, end) > at.right()));
      }
    }
  }
}

TEST_CASE_FIXTURE(Fixture, "a picture that leaves lines out says so") {
  const auto foot = [&] { return picture().find("pool/size")->text; };
  run({"new A", "new B", "append all 24"});
  CHECK(foot().starts_with("16 blocks"));
  run("append all 1");
  CHECK(foot().starts_with("lines of one table"));
}

TEST_CASE_FIXTURE(Fixture, "a refusal says why, and the next command takes it away") {
  run({"resize 10 4", "new A", "append A 38", "fork A B"});
  check_refused("append A 1", "needs 1 block");
  const viz::Scene refused = picture();
  CHECK(kvtest::note(refused, "refusal") ==
        "append A 1: needs 1 block, 0 are free; nothing has changed");
  CHECK_FALSE(refused.ghosts().empty());  // the token comes and goes back, over no word
  for (const viz::Scene::Ghost& one : refused.ghosts()) {
    if (!one.shape.id.starts_with("ghost")) continue;
    CHECK(one.to.bottom() <= refused.find("block 0")->at.y);
  }
  CHECK(refused.find("slot 9/2/token") == nullptr);
  run("free B");
  CHECK(picture().find("refusal") == nullptr);
}

TEST_CASE_FIXTURE(Fixture, "freed blocks lose their tokens, what others hold stays") {
  run({"new A", "append A 6", "fork A B", "append B 1", "free B"});
  const viz::Scene freed = picture();
  const auto leaves = [&](const char* id) {
    return std::ranges::count(freed.leaving(), id, &viz::Scene::Leaving::id);
  };
  CHECK(leaves("B/entry 1") == 1);
  CHECK(leaves("slot 2/0/token") == 1);
  CHECK(leaves("slot 0/0/token") == 0);
  CHECK(freed.find("slot 0/0/token")->text == "The");
}

TEST_CASE_FIXTURE(Fixture, "the best heir of a beam keeps its name, and each card has its score") {
  std::string story =
      run({"resize 24 4", "live beams 4 \"Once upon a time there was a little dog.\" 16"});
  std::map<std::string, double> before;
  bool forked = false;
  for (int step = 0; step < 14; ++step) {
    const viz::Scene now = picture(), phone = page.scene({357, page.info().tall});
    std::map<std::string, double> scores;
    for (const std::string name : {"A", "B", "C", "D", "E", "F", "G", "H"}) {
      const viz::Shape* card = now.find(name + "/card");
      if (card == nullptr) continue;
      const std::string score = kvtest::shape(now, name + "/score").text;
      CHECK(kvtest::shape(phone, name + "/name").text.ends_with(score));
      scores[name] = std::stod(score);
      if (step == 0) continue;
      std::string parent = name;
      if (!before.contains(name)) {
        forked = true;  // it grows out of one that was there
        REQUIRE(card->from.size() > 1);
        parent = card->from.substr(0, 1);
      }
      REQUIRE(before.contains(parent));
      CHECK(scores[name] <= before[parent]);
    }
    CHECK(scores.size() == 4);
    const auto best = std::ranges::max_element(scores, {}, [](auto& one) { return one.second; });
    CHECK(story.find(best->first + " is the likeliest") != story.npos);
    before = scores;
    story = run("step");
  }
  CHECK(forked);
}
