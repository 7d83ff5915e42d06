#pragma once

// A Ui without a picture: it notes the controls that a page draws, and clicks them by name. For
// what a page does; how it looks is for the tests that render.

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "viz/page.h"
#include "viz/ui.h"

namespace kvtest {

class FakeUi : public viz::Ui {
 public:
  struct Button {
    std::string command;
    std::string tooltip;
    std::string disabled_because;
    bool lit, filled;
  };

  explicit FakeUi(viz::Page& page) : page_(&page) { draw(); }

  /// Clicks a button that is there and enabled, and runs what it queued. Throws std::logic_error if
  /// it cannot be clicked.
  void click(const std::string& name) {
    if (!reason(name).empty()) {
      throw std::logic_error(name + " is disabled: " + reason(name));
    }
    run(buttons_.at(name).command);
    draw();
  }
  /// As a click in the picture does.
  void select(const std::string& what) {
    page_->select(what);
    draw();
  }
  bool has(const std::string& name) const { return buttons_.contains(name); }
  /// Why it is disabled; empty: it is not. Throws std::logic_error if there is no such button.
  const std::string& reason(const std::string& name) const {
    const auto found = buttons_.find(name);
    if (found == buttons_.end()) throw std::logic_error("no button " + name);
    return found->second.disabled_because;
  }
  const std::map<std::string, Button>& buttons() const { return buttons_; }
  /// Names of the lit buttons whose command has this verb.
  std::vector<std::string> lit(const std::string& verb) const {
    std::vector<std::string> names;
    for (const auto& [name, button] : buttons_) {
      if (button.lit && button.command.starts_with(verb + " ")) names.push_back(name);
    }
    return names;
  }
  /// Name of the button that is filled; empty if none is.
  std::string filled() const {
    const auto is_filled = [](const auto& named) { return named.second.filled; };
    const auto found = std::ranges::find_if(buttons_, is_filled);
    return found == buttons_.end() ? "" : found->first;
  }
  /// The content of a field when the page is drawn next.
  void type(const std::string& field, int value) {
    numbers_[field] = value;
    draw();
    draw();  // buttons that stand before the field follow in the next frame
  }

  void run(std::string command) override {
    page_->apply(viz::parse_command(command));
    page_->check_invariants();
  }
  bool button(std::string_view name, std::string_view, std::string command,
              std::string_view tooltip, std::string_view disabled_because) override {
    const auto [entry, added] =
        buttons_.insert({std::string(name),
                         {std::move(command), std::string(tooltip), std::string(disabled_because),
                          std::exchange(lit_, false), std::exchange(filled_, false)}});
    if (!added) throw std::logic_error("two buttons are called " + entry->first);
    return false;
  }
  void light() override { lit_ = true; }
  void fill() override { filled_ = true; }
  bool number(std::string_view name, std::string_view, int* value, int min, int max,
              std::string_view) override {
    const auto typed = numbers_.find(std::string(name));
    if (typed == numbers_.end()) return false;
    *value = std::min(std::max(typed->second, min), max);
    numbers_.erase(typed);
    return true;
  }
  bool text(std::string_view, std::string_view, std::string*, std::string_view) override {
    return false;
  }
  void same_line() override {}
  void heading(std::string_view) override {}
  void label(std::string_view) override {}
  void hint(std::string_view) override {}
  float scale() const override { return 1; }
  bool region(std::string_view, float, float, float, float) override { return false; }
  void tooltip(std::string_view) override {}
  bool mouse_clicked() const override { return false; }

 private:
  void draw() {
    buttons_.clear();
    page_->buttons(*this, page_->actions());
    page_->draw(*this);
  }

  viz::Page* page_;
  std::map<std::string, Button> buttons_;
  std::map<std::string, int> numbers_;
  bool lit_ = false, filled_ = false;  // the next button
};

}  // namespace kvtest
