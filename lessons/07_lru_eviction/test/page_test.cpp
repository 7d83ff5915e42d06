// The page: what its log and its note say is what has happened.

#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "page/eviction.h"
#include "tests/viz/page_fixture.h"

namespace {

struct Fixture : kvtest::PageFixture {
  Fixture() : PageFixture(std::make_unique<lesson07::EvictionPage>(kvtest::kPageContext)) {}
  std::string reason() { return kvtest::note(picture(), "reason"); }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a request that ends keeps the words of its full blocks alone") {
  CHECK(run({"ask A \"one two three four five\"", "free A"}) == "2 blocks given back");
  CHECK(value("cached") == 1);
  CHECK(reason() ==
        "A ends: its blocks go to the back, the tail first. Full blocks keep their words.");
  run({"ask A \"one two\"", "ask B \"three four\"", "free all"});
  CHECK(reason().starts_with("All end: their blocks go to the back"));
}

TEST_CASE_FIXTURE(Fixture, "the queue closes up when what is taken has left it") {
  run({"resize 4 4", "ask A \"one two three four\"", "ask B \"five six seven eight\"", "free all",
       "ask C \"a b c d e f g h i j k l\""});
  const viz::Scene scene = picture();
  CHECK(kvtest::shape(scene, "block 1").when.end <= kvtest::shape(scene, "block 2").when.begin);
}

TEST_CASE_FIXTURE(Fixture, "the log of several steps of a live run counts what all of them did") {
  run({"resize 10 4", "live \"Once upon a time there was a little dog\" 20", "step 19"});
  for (const int steps : {10, 10, 1}) {
    const int64_t revived = value("revived"), evicted = value("evicted");
    const std::string told = run("step " + std::to_string(steps));
    CHECK(told.ends_with(std::to_string(value("revived") - revived) + " found in the queue, " +
                         std::to_string(value("evicted") - evicted) + " overwritten"));
  }
  CHECK(value("revived") > 0);
  CHECK(value("evicted") > 1);
}
