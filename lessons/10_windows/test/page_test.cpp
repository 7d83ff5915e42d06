// The page: tables of groups, what falls out of a window, what a lookup finds in each group, and
// what the page says of it.

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "page/windows.h"
#include "tests/viz/page_fixture.h"

namespace {

using kvtest::count;
using kvtest::kPageContext;
using kvtest::note;
using kvtest::shape;

constexpr char kTwenty[] =
    "new A \"we sat by the sea and the sun was low and so it was one day we had the air\"";

struct Fixture : kvtest::PageFixture {
  Fixture() : PageFixture(std::make_unique<lesson10::WindowsPage>(kPageContext)) {}
};

const viz::Scene::Leaving* leaving(const viz::Scene& scene, const std::string& id) {
  const auto found = std::ranges::find(scene.leaving(), id, &viz::Scene::Leaving::id);
  return found == scene.leaving().end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a block that fell out of the window travels back to the pool") {
  run({"new A \"we sat by the sea and the sun was low\"", "append A 1"});
  // Eleven tokens: the next one sees itself and tokens 4 to 10, so block 0 has fallen out.
  const viz::Scene fallen = picture();
  CHECK(note(fallen) == "A's window has left 1 block behind: it goes back with the next token.");
  CHECK(shape(fallen, "A/1/entry 0").pattern == viz::Pattern::kCrossed);
  CHECK(shape(fallen, "A/1/entry 1").pattern == viz::Pattern::kLined);
  CHECK(shape(fallen, "A/0/entry 0").pattern == viz::Pattern::kPlain);
  CHECK(value("A.null.1") == 0);
  const std::string gone = shape(fallen, "A/1/entry 0/id").text;

  run({"append A 1"});
  const viz::Scene scene = picture();
  CHECK(value("A.null.1") == 1);
  CHECK(value("A.blocks.0") == 3);
  CHECK(value("A.blocks.1") == 2);
  CHECK(value("held") == 5);
  CHECK(value("full") == 6);
  CHECK(scene.find("A/1/entry 0") == nullptr);
  CHECK(shape(scene, "A/1/null 0/id").text == "null");
  CHECK(shape(scene, "A/1/null 0").at == shape(fallen, "A/1/entry 0").at);
  const viz::Scene::Leaving* const travels = leaving(scene, "A/1/entry 0");
  REQUIRE(travels != nullptr);
  CHECK(travels->to == shape(scene, "block " + gone).at);
  CHECK(shape(scene, "block " + gone).pattern == viz::Pattern::kDotted);
  CHECK(note(scene) == "block " + gone + " fell out of the window, and is free");
  CHECK(shape(scene, "note/arrow").at.bottom() == shape(scene, "A/1/null 0").at.bottom());
}

TEST_CASE_FIXTURE(Fixture, "a block that fell out and that another request holds stays in use") {
  run({kTwenty, "continue B A \"and so\" 19", "append A 1"});
  // B found 16 tokens, and holds blocks 2 and 3 of A's window; blocks 0 to 2 of A fell out.
  CHECK(value("B.found") == 16);
  CHECK(value("A.null.1") == 3);
  CHECK(value("held") == 14);  // two of the three are free
  CHECK(note(picture()) == "blocks 6, 7, 8 fell out of the window");
  run("append B 1");
  CHECK(value("B.null.1") == 3);
  CHECK(note(picture()) == "block 8 fell out of the window, and is free");
}

TEST_CASE_FIXTURE(Fixture, "the pool says which blocks are free again, and which are taken again") {
  run({"pool 10 4", "new A \"we sat by the sea and the sun was low\"", "append A 1", "append A 2"});
  viz::Scene scene = page.scene({600, 500});
  CHECK(shape(scene, "A/window/name").text == "seen next: 8 tokens");
  CHECK(shape(scene, "A/window/name").at.y > shape(scene, "A/window").at.bottom());
  CHECK(shape(scene, "block 4/badge").text == "window, free");
  CHECK(shape(scene, "block 5/badge").text == "window");
  run({"append A 3", "append A 3", "append A 2"});
  scene = page.scene({600, 500});
  CHECK(note(scene) == "block 6 fell out of the window, and is free; blocks 4, 5 are taken again");
  CHECK(shape(scene, "block 4/badge").text == "full, again");
  CHECK(shape(scene, "block 5/badge").text == "window, again");
  CHECK(shape(scene, "block 6/badge").text == "window, free");
}

TEST_CASE_FIXTURE(Fixture, "tables of all groups stand one above the other, entry by entry") {
  run({"groups 3", "new A \"we sat by the sea and the sun was low\"", "append A 9"});
  const viz::Scene scene = picture();
  for (int entry = 0; entry < 5; ++entry) {
    CAPTURE(entry);
    const std::string name = " " + std::to_string(entry);
    const viz::Place full = shape(scene, "A/0/entry" + name).at;
    float y = full.y;
    for (const char* group : {"A/1/", "A/2/", "A/3/"}) {
      const viz::Place at = shape(scene, std::string(group) + "entry" + name).at;
      CHECK(at.x == full.x);
      CHECK(at.y > y);
      y = at.y;
    }
    const viz::Place token = shape(scene, "A/token " + std::to_string(4 * entry)).at;
    CHECK(token.x == full.x);
  }
  // The frame: the last seven of 19 tokens, and the next one.
  const viz::Place frame = shape(scene, "A/window").at;
  CHECK(frame.holds(shape(scene, "A/token 12").at));
  CHECK_FALSE(frame.holds(shape(scene, "A/token 11").at));
  CHECK(frame.holds(shape(scene, "A/next").at));
  CHECK(frame.y > shape(scene, "A/0/entry 0").at.bottom());
  CHECK(frame.bottom() > shape(scene, "A/3/entry 0").at.bottom());
  run({"groups 0", "new A \"we sat by the sea\"", "append A 30"});
  CHECK(note(picture()) == "A's window still sees a part of every block.");
  CHECK(picture().find("A/window") == nullptr);
  CHECK(value("held") == value("full"));
}

TEST_CASE_FIXTURE(Fixture, "a new block comes from its place in the pool, a found one before it") {
  run({kTwenty, "free A", "continue B A \"and so\""});
  const viz::Scene scene = picture();
  CHECK(value("B.found") == 20);
  const viz::Shape found = shape(scene, "B/1/entry 4"), fresh = shape(scene, "B/1/entry 5");
  CHECK(found.from == "block " + shape(scene, "B/1/entry 4/id").text);
  CHECK(fresh.from == "block " + shape(scene, "B/1/entry 5/id").text);
  CHECK(found.when.end <= fresh.when.begin);
  CHECK(found.edge == viz::paint(viz::Ink::kText));
  CHECK_FALSE(fresh.edge == viz::paint(viz::Ink::kText));
  CHECK(count(scene, "B/1/null", "/id") == 3);  // the window needs two blocks of five
}

TEST_CASE_FIXTURE(Fixture, "a lookup shows what each group has, and what all agree on") {
  run({"pool 17 4", kTwenty, "append A 1", "new B \"a man saw how far off it lay to us all\"",
       "free B", "continue C A \"to us\" 16"});
  CHECK(value("alone.0") == 16);
  CHECK(value("alone.1") == 8);
  CHECK(value("hit") == 8);
  const viz::Scene scene = picture();
  CHECK(note(scene) == "C finds the 8 tokens all groups have: full attention 16, window 8");
  CHECK(shape(scene, "lookup/0/total").text == "16 tokens");
  CHECK(shape(scene, "lookup/1/total").text == "8 tokens");
  CHECK(shape(scene, "lookup/all/total").text == "8 tokens");
  const auto is_used = [&](const std::string& id) {
    return shape(scene, id).edge == viz::paint(viz::Ink::kText);
  };
  for (const char* row : {"lookup/0/block ", "lookup/1/block "}) {
    CHECK(is_used(std::string(row) + "0"));
    CHECK(is_used(std::string(row) + "1"));
    CHECK_FALSE(is_used(std::string(row) + "2"));
  }
  CHECK(shape(scene, "lookup/0/block 2").pattern == viz::Pattern::kDotted);
  CHECK(shape(scene, "lookup/1/block 2").dashed);  // it is lost
  CHECK(shape(scene, "lookup/1/block 3").pattern == viz::Pattern::kDotted);
  // Two requests hold blocks 1 and 2: both hues.
  CHECK(count(scene, "block 1/hue") == 2);
  CHECK(count(scene, "block 3/hue") == 0);
}

TEST_CASE_FIXTURE(Fixture, "a hit holds though the early blocks of a window are lost") {
  run({"pool 12 4", "new A \"we sat by the sea and the sun was low\"", "append A 5", "append A 5",
       "append A 4", "append A 4", "free A"});
  CHECK(value("evicted") == 2);
  run({"continue B A \"and how did we\""});
  CHECK(value("B.found") == 28);
  const viz::Scene scene = picture();
  CHECK(note(scene) == "B finds the 28 tokens all groups have: full attention 28, window 28");
  CHECK(shape(scene, "lookup/1/block 0").dashed);
  CHECK(shape(scene, "lookup/1/block 6").edge == viz::paint(viz::Ink::kText));
}

TEST_CASE_FIXTURE(Fixture, "what no group or only one has is told") {
  run({"new A \"we sat by the sea and the sun was low\""});
  CHECK(note(picture()) == "A finds nothing: all of it is computed");
  run({"new B \"we\""});
  const viz::Scene scene = picture();
  CHECK(shape(scene, "lookup").text == "B's prompt is too short: only full blocks are found");
  run({"continue C A \"but\" 8"});
  CHECK(note(picture()) == "C finds the 8 tokens all groups have: full attention 8, window 8");
  check_refused("continue D Z \"but\"", "there was no request Z");
}

TEST_CASE_FIXTURE(Fixture, "the pool says how many blocks are held, and would be without windows") {
  run({"groups 2", kTwenty, "append A 8", "append A 1"});
  CHECK(value("full") == 3 * value("A.blocks.0"));
  CHECK(value("held") == value("A.blocks.0") + value("A.blocks.1") + value("A.blocks.2"));
  CHECK(shape(picture(), "pool").text ==
        "one pool for all groups: " + std::to_string(value("held")) + " of 32 blocks held; " +
            std::to_string(value("full")) + " if no layer forgot");
  CHECK(value("peak") == 3 * 5);  // of the prompt, before anything fell out
}

TEST_CASE_FIXTURE(Fixture, "what cannot be done is refused and changes nothing") {
  check_refused("append A 1", "there is no request A");
  check_refused("new A \" \"", "there are no words");
  check_refused("pool 0 4", "found 0");
  check_refused("groups 4", "found 4");
  run({"pool 8 4", "new A \"we sat by the sea and the sun was low\""});
  check_refused("new A \"x\"", "there is a request A already");
  check_refused("append A 1000", "room for 64");
  check_refused("append A 12", "too few blocks are free (2)");
  check_refused("new B \"a b c d e\"", "too few blocks are free (2)");
  run({"append A 2"});
  CHECK(value("held") == 6);
  ui.select("A");
  ui.click("A/append 1");
  ui.click("A/free");
  CHECK(value("held") == 0);
  CHECK(value("free") == 8);
  run({"continue B A \"on\""});  // A has ended, and its words are known
  CHECK(value("B.tokens") == 14);
  ui.click("groups 2");
  CHECK(value("held") == 0);
}

TEST_CASE_FIXTURE(Fixture, "a live run is the engine, token by token") {
  for (const int sliding : {1, 2}) {
    CAPTURE(sliding);
    run({"groups " + std::to_string(sliding),
         "live \"Once upon a time there was a little dog\" 30"});
    check_refused("append A 1", "the engine is running");
    check_refused("live \"Once\" 3", "the engine is running");
    int64_t most = 0;
    while (page.next_step() == "step") {
      most = std::max(most, value("held"));
      const auto groups = static_cast<int64_t>(sliding);
      if (value("A.tokens") > 20) {
        CHECK(value("A.null.1") > 0);
        CHECK(value("held") == value("A.blocks.0") + groups * value("A.blocks.1"));
      }
      run("step");
    }
    CHECK(value("held") == 0);
    CHECK(value("cached") > 0);

    viz::Live live(kPageContext);
    const kv::Request request = live.request("Once upon a time there was a little dog", 30);
    std::vector<int> windows;
    for (int layer = 1; layer <= live.model().config().num_layers; ++layer) {
      windows.push_back(layer % (sliding + 1) == 0 ? 0 : 8);
    }
    live.model().set_windows(windows);
    lesson10::WindowsEngine engine(live.model(), {.block_size = 4, .num_blocks = 32});
    CHECK(std::ssize(lesson10::make_groups(live.model().config())) == 1 + sliding);
    const kv::GenerateResult result = engine.generate({&request, 1});
    CHECK(value("generated") == std::ssize(result.completions[0].tokens));
    CHECK(most == result.counters.named("blocks_in_use"));
    run("stop");
    CHECK(value("cached") == 0);
  }
  run({"live \"quack quack\" 9", "step 3", "stop"});  // cancelled in its middle
  CHECK(value("free") == 32);
  check_refused("pool 8 3", "a power of two as SIZE");  // the engine takes no other one
}
