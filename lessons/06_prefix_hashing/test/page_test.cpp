// The page: a picture tells what a lookup finds when the lookup is there, and not before.

#include <doctest/doctest.h>

#include <algorithm>

#include "page/prefix.h"
#include "tests/viz/page_fixture.h"

namespace {

using kvtest::shape;

struct Fixture : kvtest::PageFixture {
  Fixture() : PageFixture(std::make_unique<lesson06::PrefixPage>(kvtest::kPageContext)) {}
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a block gets the colour of who finds it when the lookup is there") {
  run({"ask A \"you are a helpful guide who replies briefly what is a page\"",
       "ask B \"you are a helpful guide who replies briefly how are you\""});
  CHECK(value("B.cached") == 8);
  const viz::Scene scene = picture();
  for (const char* block : {"0", "1"}) {
    CAPTURE(block);
    const auto probe = std::ranges::find(scene.ghosts(), std::string("probe ") + block,
                                         [](const auto& ghost) { return ghost.shape.id; });
    REQUIRE(probe != scene.ghosts().end());
    const std::string slot = std::string("slot ") + block + "/0/hue 1";
    CHECK(shape(scene, slot).when.begin > probe->shape.when.begin);
  }
  // Block 3 is computed after the lookup; until then nothing leads to it.
  CHECK(shape(scene, "block 1/arrow 1").when == shape(scene, "block 3").when);
}

TEST_CASE_FIXTURE(Fixture, "blocks that are compared and have no row are counted") {
  run({"bits 1", "ask A \"one two three four five six seven eight nine\"",
       "ask B \"two three four five six seven eight nine ten\"",
       "ask C \"three four five six seven eight nine ten one\""});
  CHECK(value("refused") == 6);
  const viz::Scene scene = picture();
  CHECK(kvtest::count(scene, "compare/", "/verdict") == 4);
  CHECK(shape(scene, "compare/more").text == "1 block more");
}
