#pragma once

// The page of lesson 04: one query walks over its keys, tile by tile, through the block table.
// page.cpp has its commands and buttons, scene.cpp its picture, sums.cpp the picture's m, l and
// acc.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/walk.h"
#include "sums.h"
#include "viz/live.h"
#include "viz/page.h"

namespace lesson04 {

/// The settings of a walk; a change of them walks again.
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
  viz::Scene scene(const viz::Room& room) override;
  std::vector<viz::Button> actions() const override;
  void draw(viz::Ui& ui) override;

 private:
  std::vector<viz::Verb> moves_and_changes();
  std::string start(const std::string& prompt, int num_tokens);
  /// Walks over these tokens, with these options.
  void walk(const WalkOptions& options);
  std::string resize_blocks(int block_size);
  std::string move(int steps);
  std::string story() const;
  std::string why_not_look(int layer, int head);
  bool at_end() const { return position_ + 1 == static_cast<int>(walk_->steps.size()); }
  const WalkStep& step() const { return walk_->steps[position_]; }

  class Painter;

  viz::Live model_;
  std::string prompt_;
  std::vector<int32_t> tokens_;
  std::vector<std::string> texts_;  // of the tokens
  WalkOptions options_;
  std::optional<ModelWalk> walk_;
  std::vector<int> sizes_;  // of blocks: all of these gave the same bits
  int position_ = 0;        // the step that is shown
  bool moved_on_ = false;   // the last command was a step
};

}  // namespace lesson04
