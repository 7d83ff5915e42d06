#pragma once

// The page of lesson 05: every button is an operation of this lesson's BlockManager, or a step of
// its engine. page.cpp has its commands and buttons, scene.cpp its picture.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "live.h"
#include "simulator.h"
#include "viz/drawing/linked_tables.h"
#include "viz/pool_page.h"

namespace lesson05 {

struct PoolSize {
  int num_blocks = 16;
  int block_size = 4;
};

/// The state that the page shows.
struct Shown {
  viz::PoolView pool;
  std::vector<viz::TableCard> tables;
  std::vector<BlockCopy> copies;  // made by the last command
  // If the last command was refused: the reason, and the tokens that it would have written.
  std::string refusal;
  std::vector<std::pair<std::string, std::string>> refused;  // a sequence's name, and its token
};

viz::Scene sharing_scene(const viz::Room& room, const Shown& before, const Shown& now,
                         const std::string& selected);

class SharingPage : public viz::PoolPage<Shown, PoolSize, LiveSharing> {
 public:
  explicit SharingPage(const viz::PageContext& context);

  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override;
  viz::Scene scene(const viz::Room& room) override {
    return sharing_scene(room, before_, now_, chosen());
  }
  std::vector<viz::Button> actions() const override;
  void draw(viz::Ui& ui) override;

 private:
  std::string begin() override;
  Shown look() override;
  void changed() override;
  void refused(const viz::Command& command, const std::string& why) override;
  void declare_simulator();
  std::string start_live(bool beams, const viz::Words& words);
  const BlockManager& manager() const {
    return live_.running() ? live_.manager() : simulator_->manager();
  }
  std::vector<BlockCopy> copies() const;
  bool is_to_write(const Simulator::Sequence& one) const;
  std::string chosen() const;

  std::unique_ptr<Simulator> simulator_;
};

}  // namespace lesson05
