#pragma once

// The page of lesson 04: one query walks over its keys, tile by tile, through the block table.
// page.cpp: what its commands do; page_draw.cpp: what it shows.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "viz/live.h"
#include "viz/page.h"
#include "walk.h"

namespace lesson04 {

constexpr int kMaxWalkTokens = 1024;

/// What a walk is about: changing it walks again.
struct WalkOptions {
  int block_size = 16;
  int layer = 0;
  int head = 0;
};

class WalkPage : public viz::Page {
 public:
  explicit WalkPage(const viz::PageContext& context) : model_(on_cpu(context)) {}

  viz::PageInfo info() const override;
  void reset() override;
  std::string apply(const viz::Command& command) override;
  std::optional<int64_t> counter(std::string_view name) const override;
  std::vector<std::string> counter_names() const override {
    return {"tokens", "blocks", "block_size", "layer",   "head",    "steps",
            "step",   "tile",   "group",      "m_milli", "l_milli", "done"};
  }
  std::string next_step() const override { return walk_ && !at_end() ? "next" : ""; }
  void check_invariants() const override;
  void draw(viz::Ui& ui) override;

 private:
  /// The walk runs on the CPU, where every number on its way can be looked at.
  static viz::PageContext on_cpu(viz::PageContext context) {
    context.device = "cpu";
    return context;
  }
  std::string start(const viz::Command& command);
  std::string change(const viz::Command& command);
  std::string move(const viz::Command& command);
  std::string story() const;
  bool at_end() const { return position_ + 1 == static_cast<int>(walk_->steps.size()); }
  const WalkStep& step() const { return walk_->steps[static_cast<size_t>(position_)]; }

  void draw_start(viz::Ui& ui);
  void draw_moves(viz::Ui& ui);
  void draw_pool(viz::Ui& ui);
  void draw_step(viz::Ui& ui);
  void draw_scores(viz::Ui& ui, const WalkStep& tile);
  void draw_summaries(viz::Ui& ui);

  viz::LiveModel model_;
  std::vector<int32_t> tokens_;
  std::vector<std::string> texts_;  // of the tokens
  WalkOptions options_;
  std::optional<ModelWalk> walk_;
  std::vector<float> out_;  // of the first walk with these tokens, layer and head
  int position_ = 0;        // the step that is shown
  // What the fields hold.
  std::string prompt_ = "Once upon a time there was a little dog.";
  int context_ = 200;
  WalkOptions next_;
};

}  // namespace lesson04
