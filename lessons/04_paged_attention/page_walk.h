#pragma once

// The page of lesson 04: one query walks over its keys, tile by tile, through the block table.
// page.cpp: what its commands do; page_draw.cpp: what it shows.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "program/walk.h"
#include "viz/live.h"
#include "viz/page.h"

namespace lesson04 {

/// What a walk is about: changing it walks again.
struct WalkOptions {
  int block_size = 16;
  int layer = 0;
  int head = 0;
};

class WalkPage : public viz::Page {
 public:
  explicit WalkPage(viz::PageContext context);

  void reset() override;
  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override;
  void draw(viz::Ui& ui) override;

 private:
  std::vector<viz::Verb> moves();
  std::vector<viz::Verb> changes();
  std::string start(const std::string& prompt, int num_tokens);
  /// Walks over these tokens, from the start.
  void walk(std::vector<int32_t> tokens, const WalkOptions& options);
  std::string move(int steps);
  std::string story() const;
  std::string why_not_look(int layer, int head);
  bool at_end() const { return position_ + 1 == static_cast<int>(walk_->steps.size()); }
  const WalkStep& step() const { return walk_->steps[static_cast<size_t>(position_)]; }

  void draw_moves(viz::Ui& ui);
  void draw_pool(viz::Ui& ui);
  void draw_step(viz::Ui& ui);
  void draw_scores(viz::Ui& ui, const WalkStep& tile);
  void draw_summaries(viz::Ui& ui);

  viz::Live model_;
  std::vector<int32_t> tokens_;
  std::vector<std::string> texts_;  // of the tokens
  WalkOptions options_;
  std::optional<ModelWalk> walk_;
  std::vector<float> out_;  // of the first walk with these tokens, layer and head
  int position_ = 0;        // the step that is shown
  WalkOptions next_;        // what the fields hold
};

}  // namespace lesson04
