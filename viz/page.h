#pragma once

// The seam between the visualizer and a lesson. A page owns objects of its lesson's own classes and
// changes them by commands alone: a button, a key, a scenario line and an undo all go through
// apply(). There is no second implementation of anything a lesson teaches.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/kernel.h"
#include "viz/scenario.h"

namespace viz {

class Ui;  // viz/ui.h: what draw() may use

/// What a page may need from outside; the same for all pages.
struct PageContext {
  std::filesystem::path model_dir;  // for live runs
  std::string device = "auto";      // as --device
  kv::Kernel kernel = kv::Kernel::kFast;
  uint64_t seed = 0;
};

struct PageInfo {
  std::string lesson;   // "05"
  std::string title;    // of the tab: "Share and copy"
  std::string summary;  // one sentence under the title
  /// "append NAME N    N more tokens": one line for each command, for the help and for errors.
  std::vector<std::string> commands;
};

class Page {
 public:
  virtual ~Page() = default;
  virtual PageInfo info() const = 0;

  /// Back to the state of a new page.
  virtual void reset() = 0;
  /// Does one command and says in plain words what happened ("fork B from A: 4 blocks shared, ref
  /// 1 -> 2"). Throws kv::UserError if it is unknown or cannot be done; nothing has changed then.
  /// `say`, `expect`, `fails` and `reset` never come here: the session knows them. Deterministic:
  /// the same commands after reset() give the same state (undo replays).
  virtual std::string apply(const Command& command) = 0;
  /// What `expect NAME` reads and the counters show. No value: no such counter.
  virtual std::optional<int64_t> counter(std::string_view name) const = 0;
  virtual std::vector<std::string> counter_names() const = 0;
  /// The command with which the page goes on by itself ("step" in a live run): what the player does
  /// when no scenario is loaded or it is at its end. Empty: there is none.
  virtual std::string next_step() const { return {}; }
  /// Throws std::logic_error if something that must hold does not. Called after every command.
  virtual void check_invariants() const = 0;

  /// Draws the page. Never changes the state: controls call ui.run("append A 10").
  virtual void draw(Ui& ui) = 0;
};

/// Every lesson with a page.cpp has, in its namespace,
///   std::unique_ptr<viz::Page> make_page(const viz::PageContext& context);
using MakePage = std::unique_ptr<Page> (*)(const PageContext& context);

}  // namespace viz
