// The page: blocks that are offloaded and loaded in the lesson's own pools, requests that wait for
// their blocks, and a live run of the engine.

#include <doctest/doctest.h>

#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "page/page.h"
#include "tests/viz/page_fixture.h"

namespace {

using kvtest::kPageContext;
using kvtest::note;
using kvtest::shape;

struct Fixture : kvtest::PageFixture {
  Fixture() : PageFixture(std::make_unique<lesson11::HostTierPage>(kPageContext)) {}

  /// Passes until the counter is `wanted`, at most `most`.
  void pass_until(const std::string& counter, int64_t wanted, int most = 40) {
    for (int i = 0; i < most && value(counter) != wanted; ++i) run("pass");
    CAPTURE(counter);
    CHECK(value(counter) == wanted);
  }
};

/// The cell on a shelf in which `name` is written, for example "A2".
const viz::Shape* cell_of(const viz::Scene& scene, int shelf, const std::string& name) {
  for (const viz::Shape& one : scene.shapes()) {
    const std::string begin = std::to_string(shelf) + "/block ", end = "/name " + name;
    if (one.id.starts_with(begin) && one.id.ends_with(end)) {
      return scene.find(one.id.substr(0, one.id.size() - end.size()));
    }
  }
  return nullptr;
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a block that is offloaded travels down, and its copy can be found") {
  run({"submit A 16 4", "submit B 12 24", "pass 4", "pass"});
  CHECK(value("A.ended") == 1);
  const viz::Scene under_way = picture();
  int bars = 0;
  for (const char* name : {"A0", "A1", "A2", "A3"}) {  // a copy has its name when it is there
    const viz::Shape* const block = cell_of(under_way, 0, name);
    REQUIRE(block != nullptr);
    const bool has_bar = under_way.find(block->id + "/copy") != nullptr;
    CHECK(has_bar == (cell_of(under_way, 1, name) != nullptr));
    bars += has_bar;
  }
  CHECK(bars == 2);
  CHECK(std::ssize(under_way.ghosts()) == 2 * 3);  // each with its label, on a ground
  pass_until("host.offloaded", 4);
  CHECK(note(picture()).find("copied to the host") != std::string::npos);
  CHECK(page.scene({900, 500, true}).find("note") == nullptr);  // a sentence tells it
  pass_until("moving", 0);
  const viz::Scene scene = picture();
  const viz::Shape* const source = cell_of(scene, 0, "A3");
  REQUIRE(source != nullptr);
  CHECK(source->pattern == viz::Pattern::kDotted);  // free, and can be found
  CHECK(scene.find(source->id + "/copy") != nullptr);
  CHECK(cell_of(scene, 1, "A3") != nullptr);
  CHECK(value("host.cached") == 4);
  CHECK(value("lost") == 0);
  run({"submit C 28 1", "pass 2"});
  const viz::Scene later = picture();
  const viz::Shape* const kept = cell_of(later, 1, "A3");
  REQUIRE(kept != nullptr);
  CHECK(kept->tooltip.find("only here") != std::string::npos);
  CHECK(cell_of(later, 0, "A3") == nullptr);
}

TEST_CASE_FIXTURE(Fixture, "a block without a copy is lost when it is evicted") {
  run({"ahead 0", "submit A 16 4", "pass 4", "submit C 32 8"});
  for (int i = 0; i < 4 && value("evicted") == 0; ++i) run("pass");
  CHECK(value("evicted") > 0);
  CHECK(value("lost") == value("evicted"));
  CHECK(note(picture()).ends_with("without a copy: lost"));
}

TEST_CASE_FIXTURE(Fixture, "a request that waits for its blocks holds up none that runs") {
  run({"copies 1", "submit A 16 4", "submit B 12 24", "pass 5"});
  pass_until("host.offloaded", 4);
  pass_until("moving", 0);
  run({"submit C 20 2", "pass 3", "submit A 20 4"});
  CHECK(note(picture()).starts_with("A finds 4 blocks"));
  const int64_t ran = value("B.ran");
  run("pass");
  const viz::Scene scene = picture();
  CHECK(note(scene).find("B runs meanwhile") != std::string::npos);
  CHECK(shape(scene, "request A/doing").text == "waits for its blocks");
  run("pass");
  CHECK(note(picture()) == "A still waits for its blocks; B runs meanwhile");
  pass_until("A.generated", 1);
  CHECK(value("A.loaded") >= 1);
  CHECK(value("B.ran") >= ran + value("A.loaded"));
  CHECK(value("hit.host") + value("hit.device") == 16);
  CHECK(value("A.cached") == 16);
}

TEST_CASE_FIXTURE(Fixture, "a block that has been loaded has its name while the others come") {
  run({"pool 12 24", "submit A 16 4", "pass 6", "submit C 44 2", "pass 8", "submit A 16 4",
       "pass"});
  CHECK(value("A.loaded") == 1);
  for (const char* name : {"/name A0", "/name A1"}) {
    CHECK(kvtest::count(picture(), "0/", name) == 1);
  }
  CHECK(kvtest::count(picture(), "0/", "/name A2") == 0);
}

TEST_CASE_FIXTURE(Fixture, "what is computed in less time than it is loaded in is computed") {
  const auto again = [&](const char* rates) {
    run({"policy quicker", rates, "submit A 16 4", "pass 8", "submit C 40 2", "pass 12",
         "submit A 16 4"});
    pass_until("A.ended", 1);
    return value("hit.host");
  };
  CHECK(again("rates 10 60") == 0);
  CHECK(again("rates 100 60") > 0);
}

TEST_CASE_FIXTURE(Fixture, "a choice is lit only if all of it holds") {
  CHECK(ui.lit("pool") == std::vector<std::string>{"pool 12"});
  ui.run("pool 12 24");
  ui.select("");  // draws it
  CHECK(ui.lit("pool").empty());
}

TEST_CASE_FIXTURE(Fixture, "a card tells what is computed, also when the request has ended") {
  run({"submit A 16 4", "pass"});
  const float first = shape(picture(), "A/run 0").at.w;
  pass_until("A.ended", 1);
  CHECK(shape(picture(), "A/run 0").at.w > 3 * first);  // four passes, one bar
  run({"live \"had a red ball\" 8"});
  CHECK(value("computed") > 0);
  while (value("Tom.ended") == 0) run("pass");
  const std::string tip = shape(picture(), "request Tom").tooltip;
  CAPTURE(tip);
  const int64_t known = value("Tom.generated") + std::stoi(tip.substr(tip.find("of ") + 3));
  CHECK(tip.find(std::to_string(known - 1) + " of " + std::to_string(known)) != std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "what cannot be done is refused and changes nothing") {
  check_refused("submit A 100 4", "the device has 12");
  check_refused("submit waytoolong 8 4", "is no name");
  check_refused("pass", "there is nothing to do");
  check_refused("stop", "there is no live run");
  run({"submit A 8 4"});
  check_refused("submit A 8 4", "a request of A is there already");
  ui.select("A");
  ui.click("submit");  // of B, as A is there
  CHECK(value("B.ended") == 0);
  ui.click("pass");
  ui.click("policy never");
  CHECK(value("passes") == 0);
}

TEST_CASE_FIXTURE(Fixture, "a live run is the engine, pass by pass") {
  run({"pool 14 32", "live \"had a red ball and a little dog\" 8"});
  check_refused("submit A 8 8", "the engine is running");
  while (page.why_not(viz::parse_command("pass")).empty()) run("pass");
  const viz::Scene scene = picture();
  CHECK(value("hit.host") > 0);
  CHECK(value("lost") == 0);
  // The same requests without the page, and with one pool, which come once.
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

TEST_CASE_FIXTURE(Fixture, "the filled button leads to blocks that come back from the host") {
  CHECK(ui.filled() == "submit long");
  for (int i = 0; i < 60 && value("hit.host") == 0; ++i) {
    const bool comes_again = ui.filled() == "again";
    ui.click(ui.filled());
    if (comes_again) CHECK(note(picture()).find("in the host's memory") != std::string::npos);
  }
  CHECK(value("hit.host") > 0);
}
