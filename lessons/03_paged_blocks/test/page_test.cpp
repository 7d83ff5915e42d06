// The page's picture: a token's way through it, what moves, and that all of a large pool is there.

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "tests/viz/page_fixture.h"

namespace lesson03 {
std::unique_ptr<viz::Page> make_page(const viz::PageContext& context);
}

namespace {

using kvtest::shape;

struct Fixture : kvtest::PageFixture {
  Fixture() : PageFixture(lesson03::make_page(kvtest::kPageContext)) {}

  /// The picture after these commands.
  viz::Scene run(std::initializer_list<std::string> lines) {
    PageFixture::run(lines);
    return picture();
  }
};

bool holds(const viz::Place& place, float x, float y) {
  return x >= place.x && x <= place.right() && y >= place.y - 0.1f && y <= place.bottom();
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "lines lead from a token to its entry, its block and its slot") {
  const viz::Scene scene = run({"resize 8 4", "new A", "new B", "append A 4", "append B 3",
                                "append A 4", "append B 5", "point B 6"});
  CHECK(shape(scene, "card 1/value").text == "table[6 / 4] = table[1] = 3");
  CHECK(shape(scene, "card 3/value").text == "3 \u00D7 4 + 2 = 14");
  const std::pair<const char*, const char*> ways[] = {
      {"B/token 6", "B/entry 1"}, {"B/entry 1", "block 3"}, {"block 3", "slot 3/2"}};
  for (size_t i = 0; i < std::size(ways); ++i) {
    const viz::Place line = shape(scene, ("pointed " + std::to_string(i)).c_str()).at;
    CHECK(holds(shape(scene, ways[i].first).at, line.x, line.y));
    CHECK(holds(shape(scene, ways[i].second).at, line.right(), line.bottom()));
  }
  const viz::Shape& number = shape(scene, "block 3/id");  // the last line passes beside it
  CHECK(shape(scene, "pointed 2").at.x > number.at.x + viz::text_width(number.text, number.size));
  // The same for every token, under the mouse.
  for (const char* id : {"A/token 1", "slot 0/1"}) {
    const auto& lights = shape(scene, id).lights;
    for (const char* lit : {"A/token 1", "A/entry 0", "block 0", "slot 0/1", "way A/1 2"}) {
      CAPTURE(lit);
      CHECK(std::ranges::count(lights, lit) == 1);
      CHECK(shape(scene, lit).only_lit == std::string(lit).starts_with("way"));
    }
    CHECK(shape(scene, id).command == "point A 1");
  }
}

TEST_CASE_FIXTURE(Fixture, "tokens drop into their slots, and a new entry comes from its block") {
  const viz::Scene before = run({"resize 8 4", "new A", "append A 3"});
  CHECK(before.ghosts().size() == 2 * 3);  // boxes, and their texts
  const viz::Scene scene = run({"append A 2"});
  CHECK(shape(scene, "A/entry 1").from == "block 1");
  CHECK(shape(scene, "A/entry 0").from.empty());
  REQUIRE(scene.ghosts().size() == 2 * 2);
  const viz::Scene::Ghost& last = scene.ghosts()[2];
  CHECK(holds(shape(scene, "slot 1/0").at, last.to.x + last.shape.at.w / 2,
              last.to.y + last.shape.at.h / 2));
  const viz::Scene after = run({"free A"});
  CHECK(after.ghosts().empty());
  const auto& gone = after.leaving();
  const auto entry = std::ranges::find(gone, "A/entry 1", &viz::Scene::Leaving::id);
  REQUIRE(entry != gone.end());
  CHECK(entry->to == shape(after, "block 1").at);
}

TEST_CASE_FIXTURE(Fixture, "a pool of 4,096 blocks is seen whole, and a table in runs") {
  const viz::Scene scene = run({"resize 4096 16", "new A", "append A 15000", "new B", "append B 40",
                                "append A 100", "point A 15000"});
  for (const char* id : {"block 0", "block 4095"}) {
    const viz::Place at = shape(scene, id).at;
    CHECK(at.bottom() <= 500);
    CHECK(at.right() <= 900);
    CHECK(at.w > 3);
  }
  CHECK(shape(scene, "A/token 15000/text").text == "15000");
  CHECK(shape(scene, "A/run 0/ids").text == "blocks 0 to 936");
  for (const viz::Shape& one : scene.shapes()) {
    CAPTURE(one.id);
    CHECK_FALSE(one.cut);
  }
}

TEST_CASE_FIXTURE(Fixture, "the words of a live run stand in their slots") {
  viz::Scene scene = run({"resize 12 8", "live \"Once upon a time\" 6", "step 2"});
  CHECK(shape(scene, "slot 0/0/token").text == "Once");
  CHECK(shape(scene, "R0/token 3/text").text == "time");
  // The last word is known, and has no slot before it runs through the model.
  const int64_t tokens = value("R0.tokens");
  const std::string last = "R0/token " + std::to_string(tokens);
  CHECK(shape(scene, last.c_str()).dashed);
  scene = run({"step 2"});
  CHECK_FALSE(shape(scene, last.c_str()).dashed);
}
