#pragma once

// A page about nothing but a number, for tests of what every page gets from the visualizer.

#include <fmt/format.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "common/base/error.h"
#include "viz/page.h"
#include "viz/ui.h"

namespace kvtest {

class CountingPage : public viz::Page {
 public:
  static constexpr int64_t kMost = 10;

  viz::PageInfo info() const override {
    return {.lesson = "99", .title = "Count", .summary = "Counts to 10.", .commands = {"add N"}};
  }
  void reset() override { value_ = 0; }
  std::string apply(const viz::Command& command) override {
    if (command.verb != "add") kv::user_error("{}: no such command; there is add", command.verb);
    command.check_count(1, 1);
    const int64_t n = command.number(0, "a number", -kMost, kMost);
    if (value_ + n > kMost) kv::user_error("{} and {} are more than {}", value_, n, kMost);
    value_ += n;
    return fmt::format("now {}", value_);
  }
  std::optional<int64_t> counter(std::string_view name) const override {
    return name == "value" ? std::optional<int64_t>(value_) : std::nullopt;
  }
  std::vector<std::string> counter_names() const override { return {"value"}; }
  void check_invariants() const override {
    if (value_ > kMost) throw std::logic_error("too many");
  }
  void draw(viz::Ui& ui) override {
    ui.button("one", "+1", "add 1", "One more.", value_ == kMost ? "it is 10" : "");
  }

 private:
  int64_t value_ = 0;
};

}  // namespace kvtest
