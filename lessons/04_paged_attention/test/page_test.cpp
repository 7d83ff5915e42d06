// The page's picture: the entries of a tile, what is scaled before it is added, and that other
// blocks move nothing but the table and the pool.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "page/sums.h"
#include "tests/support/shipped_model.h"
#include "tests/viz/page_fixture.h"

namespace lesson04 {
std::unique_ptr<viz::Page> make_page(const viz::PageContext& context);
}

namespace {

using kvtest::count;
using kvtest::shape;

struct Fixture : kvtest::PageFixture {
  Fixture() : PageFixture(lesson04::make_page(kvtest::kPageContext)) {}

  /// The picture after these commands.
  viz::Scene run(std::initializer_list<std::string> lines) {
    PageFixture::run(lines);
    return page.scene({900, 560});
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "all table entries of a tile are ringed, and all its words are there") {
  viz::Scene scene = run({"walk \"Once upon a time\" 150"});
  CHECK(count(scene, "ring ") == 4);
  CHECK(count(scene, "word ") == 64);
  const viz::Place first = shape(scene, "entry 0").at, ring = shape(scene, "ring 0").at;
  CHECK(std::abs(first.middle_x() - ring.middle_x()) < 1);
  CHECK_FALSE(shape(scene, "entry 3").dashed);
  CHECK(shape(scene, "entry 4").dashed);  // to come
  scene = run({"next 2"});                // the last tile: 22 tokens in two blocks
  CHECK_FALSE(shape(scene, "entry 9").dashed);
  CHECK(count(scene, "ring ") == 2);
  CHECK(count(scene, "word ") == 22);
  const viz::Place last = shape(scene, "entry 9").at;
  CHECK(std::abs(last.middle_x() - shape(scene, "ring 1").at.middle_x()) < 1);
}

TEST_CASE_FIXTURE(Fixture, "what a group has is scaled where m moves, and nowhere else") {
  run({"walk \"Once upon a time there was a little dog.\" 200", "head 2 1"});
  for (int tile = 1; tile <= 3; ++tile) {
    CAPTURE(tile);
    const viz::Scene scene = run({"next"});
    CHECK(page.counter("m_moves") == (tile == 3));
    CHECK(count(scene, "row 0/factor") == (tile == 3));
    CHECK(scene.ghosts().size() >= 32);  // acc goes down into the sum
  }
  // What is left of the group beside the sum, in one scale: the longest bar is as long as it may.
  const lesson04::ModelWalk walk = lesson04::walk_prompt(
      kvtest::shipped_model(), kvtest::request_of(70, 1).prompt, 16, 0, 0);  // two tiles, a group
  lesson04::WalkStep step = walk.steps[1];
  for (float& value : step.before.acc) value = 1.0f;
  for (float& value : step.after.acc) value = 0.5f;
  step.before.m = step.after.m - std::log(4.0f);
  viz::Scene scene({900, 560});
  lesson04::draw_sums(scene, step, {0, 0, 900, 200}, 1);
  CHECK(shape(scene, "row 0/factor").text == "\u00D7 0.2500");
  CHECK(shape(scene, "group 0/acc 7").at.h ==
        doctest::Approx(0.5f * shape(scene, "now/acc 7").at.h));
}

TEST_CASE_FIXTURE(Fixture, "the numbers of a group and its bars are named, on a phone, too") {
  run({"walk \"Once upon a time\" 150", "next"});
  for (const viz::Room& room : {viz::Room{357, 880}, viz::Room{600, 500}, viz::Room{1260, 560}}) {
    const viz::Scene scene = page.scene(room);
    for (const char* column : {"m", "l", "acc"}) {
      CAPTURE(column);
      const viz::Shape& head = shape(scene, std::string("head/") + column);
      CHECK_FALSE(head.cut);
      CHECK(head.size >= 10);
      CHECK(head.at.bottom() <= shape(scene, "row 0").at.y);
    }
  }
}

TEST_CASE_FIXTURE(Fixture, "of two parts that join, the one with the smaller m is scaled") {
  const viz::Scene scene = run({"walk \"Once upon a time\" 300", "next 6"});  // group 1 joins
  CHECK(count(scene, "row 0/factor") + count(scene, "row 1/factor") == 1);
  CHECK(count(scene, "word ") == 0);
  CHECK(scene.ghosts().size() >= 2 * 32);
}

TEST_CASE_FIXTURE(Fixture, "another block size moves the table and the pool, and no number") {
  const viz::Scene a = run({"walk \"Once upon a time\" 150", "next"});
  CHECK(page.counter("same_bits") == 1);
  run({"blocks 4"});
  CHECK(page.counter("same_bits") == 2);
  CHECK(page.counter("step") == 1);
  const viz::Scene b = page.scene({900, 560 + 24});  // a line more: whose bits are equal
  CHECK(count(b, "ring ") == 16);
  CHECK(count(b, "entry 3") > 1);
  for (const viz::Shape& one : a.shapes()) {
    const bool number = one.id.find("acc ") != std::string::npos || one.id.starts_with("bar ") ||
                        one.id.starts_with("row ");
    if (!number) continue;
    CAPTURE(one.id);
    CHECK(shape(b, one.id).at.h == doctest::Approx(one.at.h));
    CHECK(shape(b, one.id).text == one.text);
  }
  run({"head 1 2"});  // other numbers: nothing to compare them with
  CHECK(page.counter("same_bits") == 1);
}

TEST_CASE_FIXTURE(Fixture, "a head that is not there and blocks of an odd size are refused") {
  run({"walk \"The old owl was sad.\""});
  check_refused("head 99 0", "query head");
  check_refused("blocks 3", "a power of two");
}

TEST_CASE("the comparison of two walks sees one bit") {
  kv::Model& model = kvtest::shipped_model();
  const kv::Request request = kvtest::request_of(70, 1);
  const lesson04::ModelWalk walk = lesson04::walk_prompt(model, request.prompt, 16, 0, 0);
  lesson04::ModelWalk other = walk;
  CHECK(lesson04::same_bits(walk, other));
  float& value = other.steps[1].after.acc[7];
  value = std::nextafter(value, 1e9f);
  CHECK_FALSE(lesson04::same_bits(walk, other));
}
