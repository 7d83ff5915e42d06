// The page: blocks that sink and rise in the lesson's own pools, requests that wait for their own
// blocks alone, a restart, a flipped bit, and that a live run is the engine.

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "page_tiers.h"
#include "tests/viz/page_fixture.h"

namespace {

using kvtest::kPageContext;
using kvtest::note;
using kvtest::shape;

struct Fixture : kvtest::PageFixture {
  Fixture() : PageFixture(std::make_unique<lesson11::TiersPage>(kPageContext)) {}

  /// Passes until the counter is `wanted`, at most so many.
  void pass_until(const std::string& counter, int64_t wanted, int most = 40) {
    for (int i = 0; i < most && value(counter) != wanted; ++i) run("pass");
    CAPTURE(counter);
    CHECK(value(counter) == wanted);
  }
};

/// Shapes whose ids begin and end so.
int count(const viz::Scene& scene, const std::string& begin, const std::string& end = "") {
  return static_cast<int>(std::ranges::count_if(scene.shapes(), [&](const viz::Shape& one) {
    return one.id.starts_with(begin) && one.id.ends_with(end);
  }));
}

const viz::Scene::Leaving* leaving(const viz::Scene& scene, const std::string& begin) {
  const auto found = std::ranges::find_if(
      scene.leaving(), [&](const auto& one) { return one.id.starts_with(begin); });
  return found == scene.leaving().end() ? nullptr : &*found;
}

/// The place of the cell in which this is written: "A2" on shelf 1.
const viz::Shape* cell_of(const viz::Scene& scene, int shelf, const std::string& name) {
  for (const viz::Shape& one : scene.shapes()) {
    const std::string begin = std::to_string(shelf) + "/block ", end = "/name " + name;
    if (one.id.starts_with(begin) && one.id.ends_with(end)) {
      return scene.find(one.id.substr(0, one.id.size() - end.size()));
    }
  }
  return nullptr;
}

// A has ended, B runs on.
const std::initializer_list<std::string> kTwo = {"submit A 16 4", "submit B 12 24", "pass 4"};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a block that sinks travels down, and its copy can be found") {
  run(kTwo);
  CHECK(value("A.ended") == 1);
  CHECK(value("host.sunk") == 0);
  run("pass");
  const viz::Scene begins = picture();
  const viz::Shape* const source = cell_of(begins, 0, "A3");
  REQUIRE(source != nullptr);
  CHECK(source->pattern == viz::Pattern::kDotted);  // free, and can be found
  CHECK(count(begins, "move 0.", "/name") == value("moving"));
  CHECK(note(begins).starts_with("who is overwritten next sinks to the host"));
  while (value("host.sunk") == 0) run("pass");
  const viz::Scene landed = picture();
  const viz::Shape* const copy = cell_of(landed, 1, "A3");
  REQUIRE(copy != nullptr);
  const viz::Scene::Leaving* const chip = leaving(landed, "move 0.");
  REQUIRE(chip != nullptr);
  CHECK(landed.find(cell_of(landed, 0, "A3")->id + "/copy") != nullptr);
  CHECK(landed.find(copy->id + "/copy") == nullptr);  // nothing is further down yet
  CHECK(value("host.cached") == 4);
  CHECK(value("lost") == 0);
}

TEST_CASE_FIXTURE(Fixture,
                  "a block that nobody has a copy of is lost, and one with a copy is not") {
  run({"ahead 0", "submit A 16 4", "pass 4", "submit C 32 8"});
  for (int i = 0; i < 4 && value("evicted") == 0; ++i) run("pass");
  CHECK(value("evicted") > 0);
  CHECK(value("lost") == value("evicted"));
  CHECK(note(picture()).ends_with("nobody has a copy: lost"));
  run({"ahead 8"});
  run(kTwo);
  pass_until("host.sunk", 4);
  run({"submit C 20 8", "pass"});
  CHECK(value("evicted") > 0);
  CHECK(value("lost") == 0);
  CHECK(note(picture()).ends_with("there is a copy further down"));
}

TEST_CASE_FIXTURE(Fixture, "who waits for blocks of the host holds up nobody") {
  run({"copies 1"});
  run(kTwo);
  pass_until("host.sunk", 4);
  run({"submit C 20 2", "pass 3", "submit A 20 4"});
  CHECK(note(picture()).starts_with("A finds 4 blocks"));
  const int64_t ran = value("B.ran");
  run("pass");
  const viz::Scene scene = picture();
  CHECK(note(scene).find("B runs meanwhile") != std::string::npos);
  CHECK(shape(scene, "request A").pattern == viz::Pattern::kDotted);
  CHECK(shape(scene, "request A/doing").text == "waits for the host");
  pass_until("A.generated", 1);
  CHECK(value("A.loaded") >= 1);
  CHECK(value("B.ran") == ran + value("A.loaded") + 1);
  CHECK(value("hit.host") + value("hit.device") == 16);
  CHECK(value("A.cached") == 16);
}

TEST_CASE_FIXTURE(Fixture, "a restart forgets all but the file") {
  run({"submit A 16 4", "pass 4", "flush"});
  CHECK(value("host.cached") == 4);
  CHECK(value("file.cached") == 4);
  run("restart");
  CHECK(value("host.cached") == 0);
  CHECK(value("file.cached") == 4);
  CHECK(note(picture()).ends_with("the file has 4 blocks"));
  for (const char* name : {"A0", "A1", "A2", "A3"}) {
    CHECK(cell_of(picture(), 0, name) == nullptr);
    CHECK(cell_of(picture(), 2, name) != nullptr);
  }
  run({"submit A 20 4", "submit B 8 12", "pass"});
  CHECK(note(picture()) == "A waits for 4 blocks of the file; B runs meanwhile");
  CHECK(value("B.ran") == 1);
  CHECK(shape(picture(), "request A/doing").text == "waits for the file");
  CHECK(count(picture(), "move 1.", "/name") == 4);
  pass_until("A.ended", 1);
  CHECK(value("hit.file") == 16);
  CHECK(value("computed") == 19 + 4 + 3 + value("B.ran") - 1 + 8);
  run("pool 12 16 0");
  run({"submit A 16 4", "pass 4", "flush", "restart"});
  CHECK(value("host.cached") == 0);
}

TEST_CASE_FIXTURE(Fixture, "a bit that flipped costs a miss, and nothing else") {
  run({"submit A 16 4", "pass 4", "flush", "restart", "flip A2", "submit A 20 4"});
  CHECK(note(picture()) == "A finds 4 blocks: 4 in the file");
  pass_until("file.damaged", 1);
  CHECK(note(picture()).starts_with("1 record is not as it was written"));
  pass_until("A.ended", 1);       // check_invariants() looks at what every block holds
  CHECK(value("A.cached") == 8);  // A3 is of no use without A2
  CHECK(value("A.generated") == 4);
  CHECK(value("computed") == 19 + 20 + 3 - value("A.cached"));
}

TEST_CASE_FIXTURE(Fixture, "what is computed in less time than it is loaded in is computed") {
  const auto again = [&](const char* rates) {
    run({"policy quicker", rates, "submit A 16 4", "pass 4", "flush", "restart", "submit A 20 4"});
    pass_until("A.ended", 1);
    return value("A.cached");
  };
  CHECK(again("rates 10 20 200") == 0);  // 220 against 40
  CHECK(again("rates 100 20 200") == 16);
  run({"policy never", "submit A 16 4", "pass 4", "flush", "restart", "submit A 20 4", "pass"});
  CHECK(value("A.cached") == 0);
  CHECK(note(picture()) == "A computes again what it could load");
}

TEST_CASE_FIXTURE(Fixture, "what cannot be done is refused and changes nothing") {
  check_refused("submit A 100 4", "the device has 12");
  check_refused("submit A 8 4 Z 4", "there was no conversation Z");
  check_refused("submit waytoolong 8 4", "is no name");
  check_refused("pass", "there is nothing to do");
  check_refused("stop", "there is no live run");
  check_refused("flip A0", "the file has no block A0");
  check_refused("finish A", "there is no conversation A");
  run({"submit A 8 4"});
  check_refused("submit A 8 4", "a request of A is there already");
  run("finish A");
  check_refused("finish A", "it has ended already");
  page.select("A");
  ui.click("submit");
  CHECK(value("A.ended") == 0);
  ui.click("pass");
  ui.click("A/finish");
  ui.click("restart");
  ui.click("policy never");
  CHECK(value("passes") == 0);
}

TEST_CASE_FIXTURE(Fixture, "a live run is the engine, pass by pass") {
  run({"pool 14 32 0", "live \"had a red ball and a little dog\" 8"});
  check_refused("submit A 8 8", "the engine is running");
  while (page.why_not(viz::parse_command("pass")).empty()) run("pass");
  const viz::Scene scene = picture();
  CHECK(value("hit.host") > 0);
  CHECK(value("lost") == 0);
  // The same requests without the page, and without tiers, which come once.
  viz::Live live(kPageContext);
  const std::vector<std::string> names{"Tom", "Lily", "Ben", "Mia"};
  std::vector<kv::Request> requests;
  for (const std::string& name : names) {
    requests.push_back(live.request(name + " had a red ball and a little dog", 8));
  }
  lesson08::ServingEngine engine(live.model(), {.block_size = 4, .num_blocks = 64});
  const kv::GenerateResult result = engine.generate(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    std::string words;
    for (const int32_t token : result.completions[i].tokens) words += live.text(token);
    CHECK(words.size() > 10);
    CHECK(shape(scene, "request " + names[i]).tooltip.ends_with(words));
  }
  run("stop");
  CHECK(value("host.cached") == 0);
  CHECK(value("free") == 14);
}
