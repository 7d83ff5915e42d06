// The page: what is written, cut off, damaged and found again, in the lesson's own classes.

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "page/page.h"
#include "tests/viz/page_fixture.h"

namespace {

using kvtest::kPageContext;
using kvtest::shape;

struct Fixture : kvtest::PageFixture {
  Fixture() : PageFixture(std::make_unique<lesson12::FileTierPage>(kPageContext)) {}

  /// Three blocks of A in the host, and in no record.
  void offload_a() { run({"submit A 12 1", "pass 4"}); }
  /// The place on a shelf in which this block is: "1/block 14".
  std::string place_of(const std::string& shelf, const std::string& name) {
    const viz::Scene scene = picture();
    for (const viz::Shape& one : scene.shapes()) {
      if (one.id.starts_with(shelf + "/") && one.id.ends_with("/name " + name)) {
        return one.id.substr(0, one.id.find("/name"));
      }
    }
    return "";
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture,
                  "block i of the host is written to record i, and found by the next start") {
  offload_a();
  CHECK(value("unsaved") == 3);
  CHECK(value("valid") == 0);
  CHECK(shape(picture(), place_of("1", "A0")).pattern == viz::Pattern::kHatched);
  run("write");
  CHECK(value("unsaved") == 0);
  CHECK(value("valid") == 3);
  const std::string host = place_of("1", "A2"), file = place_of("2", "A2");
  CHECK(host.substr(1) == file.substr(1));
  run({"restart", "submit A 12 1", "pass 3"});
  CHECK(value("restored") == 3);
  CHECK(value("A.found") == 8);  // the last token is always computed
  CHECK(value("computed") == 4);
  CHECK(value("A.ended") == 1);
}

TEST_CASE_FIXTURE(Fixture, "a server that ends writes what no request holds") {
  run({"submit A 12 1", "pass", "submit B 12 4", "pass", "restart"});
  CHECK(shape(picture(), "request 1/token").text.starts_with("B was cut off"));
  CHECK(value("restored") == 3);
}

TEST_CASE_FIXTURE(Fixture,
                  "what a server had is lost with it, and the next one has it of the file") {
  offload_a();
  run("write");
  const std::string record = place_of("2", "A1");
  run("end");
  const viz::Scene off = picture();
  check_refused("end", "no server runs");
  CHECK(shape(off, "shelf 0/off").text == "no server: 3 blocks lost");
  CHECK(shape(off, "shelf 1/off").text == "no server: 3 blocks lost");
  const auto struck = std::ranges::count(off.leaving(), true, &viz::Scene::Leaving::struck);
  CHECK(struck == 6);  // the names of both memories' blocks
  CHECK(place_of("2", "A1") == record);
  run("restart");
  const auto comes = [&](const std::string& from, const std::string& to) {
    const viz::Scene scene = picture();
    return std::ranges::any_of(scene.ghosts(), [&](const viz::Scene::Ghost& one) {
      return one.shape.id == to + "/words" && shape(scene, from).at.holds(one.shape.at) &&
             shape(scene, to).at.holds(one.to);
    });
  };
  const std::string host = place_of("1", "A1");
  CHECK(comes(record, host));
  run({"submit A 12 1", "pass"});
  CHECK(comes(host, place_of("0", "A1")));
  run("pass");  // its last block is computed
  CHECK_FALSE(comes(place_of("1", "A2"), place_of("0", "A2")));
}

TEST_CASE_FIXTURE(Fixture, "after a power cut only whole records are found, wherever it came") {
  for (int writes = 0; writes <= 9; ++writes) {
    CAPTURE(writes);
    run("pool 10 14");
    offload_a();
    run("cut " + std::to_string(writes));
    CHECK(value("valid") == writes / 3);
    CHECK(value("damaged") == 0);
    check_refused("pass", "no server runs");
    run("restart");
    CHECK(value("restored") == writes / 3);
    CHECK(value("in_file") == 0);
  }
}

TEST_CASE_FIXTURE(Fixture, "a content that never reached the disk is told by its checksum") {
  offload_a();
  CHECK(run("cut 9 5").ends_with("Lost: record 13's content."));
  CHECK(value("valid") == 2);
  CHECK(value("damaged") == 1);
  CHECK(run("restart").find("1 block damaged in the file") != std::string::npos);
  CHECK(value("restored") == 2);
  CHECK(value("damaged") == 0);  // erased
}

TEST_CASE_FIXTURE(Fixture,
                  "of a torn record only the half that reached the disk is drawn as filled") {
  offload_a();
  run("cut 5");
  viz::Scene scene = picture();
  CHECK(shape(scene, "2/block 13/number").text == "#13");
  CHECK(scene.find("2/block 13/header") == nullptr);
  CHECK(shape(scene, "2/block 13/content").fill.ink == viz::Ink::kHue);
  CHECK(scene.find("2/block 14/content") == nullptr);  // whole
  CHECK(scene.find("2/block 12/content") == nullptr);  // empty
  for (const char* shelf : {"shelf 0/off", "shelf 1/off"}) CHECK(scene.find(shelf) != nullptr);
  run({"restart", "pool 10 14"});
  offload_a();
  run("cut 9 5");
  scene = picture();
  CHECK(shape(scene, "2/block 13/header").fill.ink == viz::Ink::kHue);
  CHECK(shape(scene, "2/block 13/content").fill.ink == viz::Ink::kNone);
}

TEST_CASE_FIXTURE(Fixture, "damage is found, and named with its place") {
  offload_a();
  run("damage host A1");
  CHECK(shape(picture(), place_of("1", "A1")).pattern == viz::Pattern::kCrossed);
  CHECK(run("write").find("1 block damaged on the way to the host") != std::string::npos);
  CHECK(place_of("1", "A1").empty());
  run({"restart", "damage host A0", "submit A 12 1", "pass"});
  CHECK(run("pass").find("in the host's memory") != std::string::npos);
  CHECK(value("A.found") == 0);
  run({"restart", "submit A 12 1", "pass", "damage device A0"});
  const std::string place = place_of("0", "A0");
  CHECK(shape(picture(), place).pattern == viz::Pattern::kCrossed);
  CHECK(run("pass").find("on the way to the device") != std::string::npos);
  run({"write", "damage file A0"});
  CHECK(value("damaged") == 1);
  CHECK(run("restart").find("in the file") != std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "what cannot be done is refused and changes nothing") {
  check_refused("pass", "there is nothing to do");
  check_refused("submit A 100 4", "the pool has 10");
  check_refused("damage host A0", "no such block is whole there");
  offload_a();
  check_refused("damage file A0", "no such block is whole there");
  check_refused("damage device A0", "no such block is on its way to the device");
  run({"submit B 8 2", "damage host A0"});
  check_refused("damage host A0", "no such block is whole there");
  check_refused("submit B 8 2", "a request of B is there");
}

TEST_CASE_FIXTURE(Fixture, "its buttons work, and a block that is selected can be damaged") {
  ui.click("submit");
  ui.click("pass");
  ui.click("pass");
  ui.click("pass");
  ui.click("pass");
  ui.select("host A1");
  ui.click("damage");
  ui.click("write");
  CHECK(value("to_host") == 1);
  ui.click("cut 2");
  ui.click("restart");
  CHECK(value("starts") == 2);
  ui.click("pool");
  CHECK(value("starts") == 1);
}
