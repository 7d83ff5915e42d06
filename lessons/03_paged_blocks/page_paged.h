#pragma once

// The page of lesson 03: a pool of blocks, a table for each sequence, and the way from a token to
// its slot. page.cpp: what its commands do; page_draw.cpp: what it shows.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine.h"
#include "page_sequences.h"
#include "viz/live.h"
#include "viz/live_controls.h"
#include "viz/page.h"

namespace lesson03 {

constexpr int kNumBlocks = 32;
constexpr int kBlockSize = 16;

/// A sequence as it is shown: of the simulator, or of the running engine.
struct Shown {
  std::string name;
  int hue = 0;
  const BlockTable* table = nullptr;
  std::vector<std::string> texts;  // of the tokens known; those beyond the table have no slot
};

/// A token that somebody points at.
struct Pointed {
  std::string name;
  int token = 0;
};

class PagedPage : public viz::Page {
 public:
  explicit PagedPage(const viz::PageContext& context) : model_(context) { reset(); }

  viz::PageInfo info() const override;
  void reset() override;
  std::string apply(const viz::Command& command) override;
  std::optional<int64_t> counter(std::string_view name) const override;
  std::vector<std::string> counter_names() const override;
  std::string next_step() const override { return live_ && !live_->finished() ? "step" : ""; }
  void check_invariants() const override;
  void draw(viz::Ui& ui) override;

 private:
  std::string simulate(const viz::Command& command);
  std::string start(const viz::Command& command);
  std::string point(const viz::Command& command);
  std::string story();
  std::vector<std::string> names() const;
  /// Null: there is no such sequence (any more).
  const BlockTable* table_of(const std::string& name) const;
  const BlockManager& manager() const { return live_ ? *engine_->manager() : pool_->manager(); }
  std::vector<Shown> shown();

  void draw_simulator_controls(viz::Ui& ui);
  void draw_translation(viz::Ui& ui, const std::vector<Shown>& all);
  void draw_pool(viz::Ui& ui, const std::vector<Shown>& all);
  void draw_sequence(viz::Ui& ui, const Shown& sequence);
  void draw_buttons(viz::Ui& ui, const std::string& name);
  /// What the translation is about: what the mouse is over, else what was pointed at.
  std::optional<Pointed> current() const;

  viz::LiveModel model_;
  std::unique_ptr<NamedSequences> pool_;
  std::unique_ptr<PagedEngine> engine_;
  std::unique_ptr<viz::LiveRequests> live_;  // borrows the engine
  std::optional<Pointed> pointed_;
  // Of the picture alone: the token under the mouse, the one that is shown, what the fields hold.
  std::optional<Pointed> hovered_;
  std::optional<Pointed> seen_;
  int new_blocks_ = kNumBlocks, new_size_ = kBlockSize;
  viz::LiveFields live_fields_{.prompt = "Once upon a time there was a little dog", .tokens = 40};
};

}  // namespace lesson03
