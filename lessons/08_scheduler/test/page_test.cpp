// The page: what its picture tells of a preemption and of a closed gate, that a live run is the
// engine, and what is refused.

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine.h"
#include "page/page.h"
#include "tests/viz/page_fixture.h"
#include "viz/drawing/motion.h"

namespace {

using kvtest::kPageContext;
using kvtest::note;

struct Fixture : kvtest::PageFixture {
  Fixture() : PageFixture(std::make_unique<lesson08::SchedulerPage>(kPageContext)) {}
};

viz::Place place(const viz::Scene& scene, const std::string& id) {
  return kvtest::shape(scene, id).at;
}
bool within(const viz::Scene& scene, const std::string& id, const std::string& lane) {
  const viz::Place at = place(scene, id), around = place(scene, "lane " + lane);
  return at.x >= around.x && at.right() <= around.right();
}
bool leaves(const viz::Scene& scene, const std::string& id) {
  return std::ranges::count(scene.leaving(), id, &viz::Scene::Leaving::id) > 0;
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a preemption says who needs what and who gives, and the blocks move") {
  run({"pool 9 4 24", "submit A 8 9 0 0", "submit B 6 7 0 0", "submit C 8 8 0 0", "pass",
       "pass 4"});
  CHECK(note(picture()).empty());
  run({"pass"});
  const viz::Scene scene = picture();
  CHECK(note(scene) == "A needs 1 block, none is free: C, the youngest, gives its 3");
  CHECK(within(scene, "request C", "waiting"));
  CHECK(scene.find("request C")->pattern == viz::Pattern::kCrossed);
  CHECK(within(scene, "request A", "running"));
  for (const char* entry : {"C/entry 0", "C/entry 1", "C/entry 2"}) CHECK(leaves(scene, entry));
  CHECK_FALSE(leaves(scene, "A/entry 0"));
  const viz::Shape& taken = *scene.find("A/entry 3");
  CHECK(taken.from == "block 8");  // the tail of what C gave
  const auto leaving = std::ranges::find(scene.leaving(), "C/entry 2", &viz::Scene::Leaving::id);
  CHECK(leaving->when.end < taken.when.begin);
  CHECK(scene.ghosts().size() == 1);  // the block that A wants

  run("pass 2");  // B ends, C comes back
  const viz::Scene back = picture();
  CHECK(note(back) == "C is back: 8 of its tokens are found in the cache");
  CHECK(within(back, "request C", "running"));
  CHECK(within(back, "request B", "ended"));
  CHECK(back.find("request B")->when.end <= back.find("request C")->when.begin);
  CHECK(back.find("C/entry 0")->from == "block 5");
  CHECK(back.find("C/entry 1")->edge == viz::paint(viz::Ink::kText));        // found
  CHECK_FALSE(back.find("C/entry 2")->edge == viz::paint(viz::Ink::kText));  // computed again
}

TEST_CASE_FIXTURE(Fixture, "who asks and who gives, by priority and for more than one block") {
  // B is the more important one: A, which runs before it in the pass, gives way with its chunk.
  run({"pool 4 4 16", "order priority", "submit A 7 6 5 0", "pass", "submit B 7 6 1 0", "pass"});
  CHECK(note(picture()).empty());
  for (int i = 0; i < 4 && value("preemptions") == 0; ++i) run({"pass"});
  CHECK(note(picture()) ==
        "A needs 1 block, none is free: it is the least important, and gives its 2");
  // A chunk of B needs two blocks at once.
  run({"order first", "gate off", "pool 6 4 8", "submit A 8 9 0 0", "submit B 16 4 0 0", "pass"});
  for (int i = 0; i < 9 && value("preemptions") == 0; ++i) run({"pass"});
  CHECK(note(picture()) == "B needs 2 blocks, 1 is free: it is the youngest, and gives its 2");
  // The last free block goes to A in the same pass.
  run({"pool 5 4 16", "submit A 8 9 0 0", "submit B 8 9 0 0", "pass", "pass"});
  CHECK(note(picture()) == "B needs 1 block, none is free: it is the youngest, and gives its 2");
}

TEST_CASE_FIXTURE(Fixture, "the first in line says what it needs, and the pass that it is full") {
  run({"pool 8 4 8", "submit A 20 4 0 0", "submit B 16 4 0 0", "pass"});
  CHECK(note(picture()) == "the pass is full: B waits for the next one");
  const viz::Scene scene = picture();
  const viz::Place piece = place(scene, "pass 1/A"), budget = place(scene, "budget");
  CHECK(piece.w + 2 == doctest::Approx(budget.w));
  CHECK(scene.find("pass 1/A")->pattern == viz::Pattern::kLined);
  run({"pass 3"});
  CHECK(scene.find("gate")->dashed);
  const viz::Scene closed = picture();
  CHECK(note(closed) == "B needs 4 blocks to start, 2 are free");
  CHECK_FALSE(closed.find("gate")->dashed);
  CHECK(closed.find("pass 4/A")->pattern == viz::Pattern::kPlain);
}

TEST_CASE_FIXTURE(Fixture, "the pool and the cards show the same blocks") {
  run({"submit A 20 9", "submit B 20 9", "pass", "pass 4", "shrink 3"});
  const viz::Scene scene = picture();
  int entries = 0, reserved = 0;
  for (const viz::Shape& shape : scene.shapes()) {
    reserved += shape.id.starts_with("block ") && shape.pattern == viz::Pattern::kHatched;
    if (shape.id.find("/entry ") == std::string::npos || shape.lights.empty()) continue;
    ++entries;
    const viz::Shape* const block = scene.find(shape.lights.front());
    REQUIRE(block != nullptr);
    CHECK(block->edge.ink != viz::Ink::kNone);
  }
  CHECK(entries == 12);
  CHECK(reserved == 3);
  CHECK(value("free") == 32 - 8 - 3);  // four blocks are shared
}

TEST_CASE_FIXTURE(Fixture, "a live run is the engine, pass by pass") {
  run({"pool 14 4 8", "live \"Once upon a time, there was a little\" 20"});
  CHECK(value("running") == 1);
  ui.select("A");  // drawn again
  CHECK(ui.has("live/step"));
  check_refused("submit A 8 8", "the engine is running");
  while (page.next_step() == "pass") run({"pass 10"});
  CHECK(value("ended") == lesson08::LiveServing::kRequests);
  CHECK(value("preemptions") >= 1);

  // The same requests without the page, in a pool for all of them.
  viz::Live live(kPageContext);
  std::vector<kv::Request> requests(lesson08::LiveServing::kRequests,
                                    live.request("Once upon a time, there was a little", 20));
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].sampling.temperature = 0.8f;
    requests[i].sampling.seed += i;
  }
  lesson08::ServingEngine engine(live.model(), {.block_size = 4, .num_blocks = 64});
  const kv::GenerateResult result = engine.generate(requests);
  const viz::Scene scene = picture();
  for (size_t i = 0; i < requests.size(); ++i) {
    std::string words;
    for (const int32_t token : result.completions[i].tokens) words += live.text(token);
    const viz::Shape* const card = scene.find("request " + viz::letters(static_cast<int>(i)));
    REQUIRE(card != nullptr);
    CHECK(card->tooltip.ends_with(words));
    CHECK(words.size() > 20);
  }
  run({"stop"});
  CHECK(value("ended") == 0);
  CHECK(value("free") == 14);
}

TEST_CASE_FIXTURE(Fixture, "a bar goes with its card, and grows in the pass if the card stays") {
  run({"pool 9 4 24", "submit A 8 9 0 0", "pass"});
  const viz::Scene starts = picture();
  const viz::Span moves = kvtest::shape(starts, "request A").when;
  for (const char* part : {"A/bar", "A/known", "A/prompt", "A/decode"}) {
    CHECK(kvtest::shape(starts, part).when == moves);
  }
  run("pass");
  const viz::Scene decodes = picture();
  CHECK(kvtest::shape(decodes, "A/decode").when.begin > moves.end);
}

TEST_CASE_FIXTURE(Fixture, "what cannot be done is refused and changes nothing") {
  run({"pool 6 4 8", "submit A 6 4", "pass"});
  check_refused("pool 6 3 8", "a power of two as SIZE");
  check_refused("submit B 20 20", "the pool has 6");
  check_refused("submit A 4 4", "there is a request A already");
  check_refused("grow", "no block was taken away");
  check_refused("stop", "there is no live run");
  page.select("A");
  ui.type("submit/PROMPT", 24);  // drawn again
  ui.click("A/kill");
  check_refused("kill A", "it has ended already");
  check_refused("pass", "there is nothing to do");
  CHECK(value("free") == 6);
  CHECK(value("rows") == 6);  // the last pass had them
  CHECK(kvtest::shape(picture(), "pass 1/A").at.w > 0);
}
