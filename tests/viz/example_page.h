#pragma once

// A page about nothing but a number, for tests of what every page gets from the visualizer.

#include <fmt/format.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "viz/drawing/parts.h"
#include "viz/page.h"
#include "viz/shell/session.h"
#include "viz/ui.h"

namespace kvtest {

/// A scenario of the page below.
inline constexpr const char* kStory =
    "# a comment\npage 99\nsay \"Two \\\"and\\\" three.\"\nadd 2\nexpect value 2\n\nadd 3  # five\n"
    "expect value >= 5\nfails add 6\nexpect value 5\n";

class CountingPage : public viz::Page {
 public:
  static constexpr int kMost = 10;

  explicit CountingPage(const std::string& lesson = "99", std::vector<std::string> opening = {})
      : Page({lesson, "Count", "Counts to 10.", std::move(opening), 700}) {
    declare({{"add",
              {viz::number("N", -kMost, kMost)},
              "N more",
              [this](auto& w) {
                value_ += w[0].number;
                return fmt::format("now {}", value_);
              },
              [this](auto& w) {
                const bool fits = value_ + w[0].number <= kMost;
                return fits ? "" : fmt::format("{} is the most", kMost);
              }}});
  }
  void reset() override { value_ = 0; }
  std::vector<viz::Counter> counters() const override { return {{"value", value_, "so many"}}; }
  void check_invariants() const override {
    if (value_ > kMost) throw std::logic_error("too many");
  }
  /// A box for each: the last one comes from the side.
  viz::Scene scene(const viz::Room& room) override {
    viz::Scene scene(room);
    const viz::Grid grid = viz::fit(kMost, {0, 0, room.w, room.h}, {});
    scene.box("panel", {0, 0, room.w, room.h}, viz::paint(viz::Ink::kPanel));
    for (int64_t i = 0; i < value_; ++i) {
      const std::string id = fmt::format("one {}", i);
      scene.box(id, grid.cell(static_cast<int>(i)), viz::soft(0)).comes_from("panel").selecting(id);
    }
    return scene;
  }
  void draw(viz::Ui& ui) override { buttons(ui, {{"one", "+1", "add 1"}}); }

 private:
  int value_ = 0;
};

struct CountingSession {
  void load(const std::string& lines, const std::string& name) {
    session.load(viz::Scenario::parse("page 99\n" + lines, name));
  }
  viz::Session session{std::make_unique<CountingPage>()};
  int64_t value() const { return session.page().counter("value").value(); }
};

/// The pages of a shell: one of each kind.
template <class... Kinds>
std::vector<std::unique_ptr<viz::Page>> pages_of() {
  std::vector<std::unique_ptr<viz::Page>> pages;
  (pages.push_back(std::make_unique<Kinds>()), ...);
  return pages;
}

}  // namespace kvtest
