// The page's picture: the entries of a tile, what a merge scales, and that other blocks move
// nothing but the table and the pool.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "page/merge.h"
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
  scene = run({"next 4"});                // the last tile: 22 tokens in two blocks
  CHECK_FALSE(shape(scene, "entry 9").dashed);
  CHECK(count(scene, "ring ") == 2);
  CHECK(count(scene, "word ") == 22);
  const viz::Place last = shape(scene, "entry 9").at;
  CHECK(std::abs(last.middle_x() - shape(scene, "ring 1").at.middle_x()) < 1);
}

TEST_CASE_FIXTURE(Fixture, "bars shrink by exp(m - the larger m), and the factor is beside them") {
  const viz::Scene scene = run({"walk \"Once upon a time\" 150", "next 3"});  // tile 1 joins
  const viz::Scene before = run({"back"});
  const float was = shape(before, "group 0/l bar").at.w;
  const float now = shape(scene, "group 0/l bar").at.w;
  const double factor = std::stod(shape(scene, "row 0/factor").text.substr(3));
  const double other = std::stod(shape(scene, "row 1/factor").text.substr(3));
  CHECK(std::max(factor, other) == 1);  // the larger m is one of the two
  CHECK(std::min(factor, other) < 1);
  CHECK(std::abs(static_cast<double>(now) - std::max(1.0, was * factor)) < 0.1);  // 1: visible
  CHECK(scene.ghosts().size() >= 2 * 32);  // acc of both go down into the sum
}

TEST_CASE_FIXTURE(Fixture, "another block size moves the table and the pool, and no number") {
  const viz::Scene a = run({"walk \"Once upon a time\" 150", "next 3"});
  CHECK(page.counter("same_bits") == 1);
  const viz::Scene b = run({"blocks 4"});
  CHECK(page.counter("same_bits") == 2);
  CHECK(page.counter("step") == 3);
  CHECK(count(b, "ring ") == 16);
  CHECK(count(b, "entry 3") > 1);
  for (const viz::Shape& one : a.shapes()) {
    const bool number = one.id.find("acc ") != std::string::npos || one.id.starts_with("bar ") ||
                        one.id.starts_with("row ") || one.id.starts_with("score ");
    if (!number || one.id == "bits/size 16") continue;
    CAPTURE(one.id);
    CHECK(shape(b, one.id).at == one.at);
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
