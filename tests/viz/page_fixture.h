#pragma once

// A lesson's page under test: lines that it runs, what it counts, and what it refuses. For what a
// page does; how it looks is for the tests that render.

#include <doctest/doctest.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "common/error.h"
#include "tests/viz/fake_ui.h"
#include "viz/page.h"
#include "viz/shell/scenario.h"

namespace kvtest {

constexpr viz::Room kRoom{900, 500};

/// Live runs are of the model that ships.
inline const viz::PageContext kPageContext{.model_dir = KV_SOURCE_DIR "/models/tiny",
                                           .device = "cpu"};

/// All counters as one text: two pages in one state have one text.
inline std::string state_of(const viz::Page& page) {
  std::string text;
  for (const viz::Counter& one : page.counters()) {
    text += one.name + "=" + std::to_string(one.value) + " ";
  }
  return text;
}

struct PageFixture {
  explicit PageFixture(std::unique_ptr<viz::Page> its_page) : owned(std::move(its_page)) {}

  /// Lines, one after the other; what the page says of the last one.
  std::string run(std::initializer_list<std::string> lines) {
    std::string story;
    for (const std::string& line : lines) {
      story = page.apply(viz::parse_command(line));
      page.check_invariants();
    }
    return story;
  }
  std::string run(const std::string& line) { return run({line}); }
  viz::Scene picture() { return page.scene(kRoom); }
  int64_t value(const std::string& counter) const { return page.counter(counter).value(); }
  std::string state() const { return state_of(page); }
  /// The line is refused, says `why`, and changes nothing.
  void check_refused(const std::string& line, const char* why) {
    CAPTURE(line);
    const std::string before = state();
    CHECK_THROWS_WITH_AS(page.apply(viz::parse_command(line)), doctest::Contains(why),
                         kv::UserError);
    CHECK(state() == before);
    page.check_invariants();
  }

  std::unique_ptr<viz::Page> owned;
  viz::Page& page = *owned;
  FakeUi ui{page};
};

inline const viz::Shape& shape(const viz::Scene& scene, const std::string& id) {
  CAPTURE(id);
  const viz::Shape* const found = scene.find(id);
  REQUIRE(found != nullptr);
  return *found;
}

/// Number of shapes whose names begin and end like this.
inline int count(const viz::Scene& scene, const std::string& begin, const std::string& end = "") {
  return static_cast<int>(std::ranges::count_if(scene.shapes(), [&](const viz::Shape& one) {
    return one.id.starts_with(begin) && one.id.ends_with(end);
  }));
}

/// The text of the note in a picture; empty if there is none.
inline std::string note(const viz::Scene& scene, const std::string& id = "note") {
  std::string words;
  for (const viz::Shape& one : scene.shapes()) {
    if (one.id.starts_with(id + "/text")) words += (words.empty() ? "" : " ") + one.text;
  }
  return words;
}

}  // namespace kvtest
