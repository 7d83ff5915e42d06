// From scene to scene: what is seen at moments in between.

#include "viz/drawing/motion.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "viz/drawing/stage.h"

namespace {

/// A part of the motion: find() returns a shape as it is then, or null if it is not seen.
struct Moment {
  Moment(const viz::Scene& before, const viz::Scene& after, float part)
      : drawn(viz::at_moment(viz::tracks(before, after), part)) {}
  const viz::Drawn* find(const std::string& id) const {
    const auto found = std::ranges::find_if(drawn, [&](auto& one) { return one.shape.id == id; });
    return found == drawn.end() ? nullptr : &*found;
  }
  bool has(const std::string& id) const { return find(id) != nullptr; }
  float x(const std::string& id) const {
    REQUIRE(has(id));
    return find(id)->shape.at.x;
  }
  std::vector<viz::Drawn> drawn;
};

void box(viz::Scene& scene, const std::string& id, float x) {
  scene.box(id, {x, 0, 10, 10}, viz::soft(0));
}

/// Two scenes, and what is seen on the way.
struct Motion {
  Moment at(float part) const { return {before, after, part}; }
  viz::Scene before{{400, 200}}, after{{400, 200}};
};

}  // namespace

TEST_CASE_FIXTURE(Motion, "a shape with the same id is half way at half time") {
  box(before, "a", 100);
  box(after, "a", 200);
  CHECK(at(0).x("a") == 100);
  CHECK(at(0.5f).x("a") == doctest::Approx(150));
  CHECK(at(0.5f).find("a")->mix == doctest::Approx(0.5));
  CHECK(at(0.25f).x("a") < 125);  // slow at its beginning
  CHECK(at(1).x("a") == 200);
}

TEST_CASE_FIXTURE(Motion, "what ends is seen until then, over what it stood on") {
  for (viz::Scene* one : {&before, &after}) box(*one, "ground", 100);
  box(before, "gone", 100);
  for (viz::Scene* one : {&before, &after}) box(*one, "over it", 100);
  after.ends("gone", {0.5f, 0.9f});
  const std::vector<viz::Drawn> drawn = at(0.2f).drawn;
  REQUIRE(drawn.size() == 3);
  CHECK(drawn[0].shape.id == "ground");
  CHECK(drawn[1].shape.id == "gone");
  CHECK(drawn[2].shape.id == "over it");
}

TEST_CASE_FIXTURE(Motion, "a new shape fades in, or comes from where its hint says") {
  box(before, "a", 100);
  box(after, "a", 100);
  box(after, "new", 200);
  after.box("copy", {300, 0, 10, 10}, viz::soft(0)).comes_from("a", {0.2f, 0.6f});
  CHECK_FALSE(at(0).has("new"));
  CHECK(at(0.5f).find("new")->shape.opacity == doctest::Approx(0.5));
  CHECK(at(0.5f).x("new") == 200);
  CHECK_FALSE(at(0.2f).has("copy"));
  CHECK(at(0.4f).x("copy") == doctest::Approx(200));
  CHECK(at(0.4f).find("copy")->shape.opacity == 1);
  CHECK(at(0.6f).x("copy") == 300);
}

TEST_CASE_FIXTURE(Motion, "what is gone fades out, or goes where it is sent") {
  for (const char* id : {"a", "b"}) box(before, id, 100);
  after.leaves("b", {300, 0, 0, 0}, {0.5f, 1}, true);
  CHECK(at(0.125f).find("a")->shape.opacity == doctest::Approx(0.5));
  CHECK_FALSE(at(0.25f).has("a"));
  CHECK(at(0.5f).x("b") == 100);  // waits for its moment
  CHECK(at(0.75f).x("b") == doctest::Approx(200));
  CHECK(at(0.75f).find("b")->shape.struck);
  CHECK_FALSE(at(1).has("b"));
}

TEST_CASE_FIXTURE(Motion, "a ghost is seen only on its way, over all others") {
  box(before, "a", 0);
  box(after, "a", 0);
  viz::Scene other({400, 200});
  box(other, "ghost", 100);
  after.ghost(other.shapes()[0], {200, 0, 0, 0}, {0.25f, 0.75f});
  CHECK_FALSE(at(0.25f).has("ghost"));
  CHECK(at(0.5f).x("ghost") == doctest::Approx(150));
  CHECK(at(0.5f).drawn.back().shape.id == "ghost");
  CHECK_FALSE(at(1).has("ghost"));
  after.drop_hints();
  CHECK_FALSE(at(0.5f).has("ghost"));
}

TEST_CASE_FIXTURE(Motion,
                  "a text that changes is gone before the next one comes, within its span") {
  before.label("count", {0, 0, 50, 20}, "1");
  after.label("count", {0, 0, 50, 20}, "2").during({0.8f, 1});
  const auto texts = [&](float part) {
    std::string all;
    for (const viz::Drawn& one : at(part).drawn) all += one.shape.text;
    return all;
  };
  for (const float part : {0.8f, 0.89f}) CHECK(texts(part) == "1");
  CHECK(texts(0.91f) == "2");
  CHECK(texts(1) == "2");
}

TEST_CASE_FIXTURE(Motion, "a text that changes on its way stays on the box that it stands on") {
  const auto card = [](viz::Scene& scene, float x, const char* words) {
    scene.box("card", {x, 0, 60, 20}, viz::soft(0));
    scene.label("card/text", {x, 0, 60, 20}, words);
  };
  card(before, 0, "0/8");
  card(after, 300, "8/8");
  for (float part = 0.1f; part < 1; part += 0.1f) {
    const Moment moment = at(part);
    if (!moment.has("card/text")) continue;  // between the two
    CHECK(std::abs(moment.x("card/text") - moment.x("card")) < 0.11f * 300);
  }
}

TEST_CASE_FIXTURE(Motion, "the stage takes as long as the scene asks for, and can be held") {
  box(before, "a", 0);
  box(after, "a", 100);
  after.lasts(2);
  viz::Stage stage;
  stage.cut_to(before);
  CHECK_FALSE(stage.moving());
  stage.move_to(after);
  const auto x = [&] { return stage.drawn().at(0).shape.at.x; };
  CHECK(x() == 0);
  stage.advance(1);
  CHECK(x() == doctest::Approx(50));
  stage.advance(0.9f);
  CHECK(stage.moving());
  stage.advance(0.2f);
  CHECK_FALSE(stage.moving());
  CHECK(x() == 100);
  stage.hold(0.5f);
  CHECK(x() == doctest::Approx(50));
  stage.cut_to(before);
  CHECK(x() == 0);
}
