#pragma once

// The page of lesson 05: every button is an operation of this lesson's BlockManager, or a step of
// its engine. page.cpp: what its commands do; page_draw.cpp: its buttons; page_scene.h: its
// picture.

#include <memory>
#include <string>
#include <vector>

#include "page_live.h"
#include "page_scene.h"
#include "page_simulator.h"
#include "viz/page.h"

namespace lesson05 {

class SharingPage : public viz::Page {
 public:
  explicit SharingPage(const viz::PageContext& context);

  void reset() override;
  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override;
  viz::Scene scene(const viz::Room& room) override;
  void draw(viz::Ui& ui) override;

 protected:
  void changed() override;
  void refused(const viz::Command& command, const std::string& why) override;

 private:
  void declare_simulator();
  std::vector<viz::Verb> growing_verbs();
  std::string start_live(bool beams, const viz::Words& words);
  const BlockManager& manager() const {
    return live_.running() ? live_.manager() : simulator_->manager();
  }
  /// Of the simulator or the engine.
  struct SequenceOnPage : viz::SequenceView {
    const BlockTable* table = nullptr;
    std::string origin;
    std::vector<std::string> words = {};  // of live tokens; the last one may have no slot yet
    std::string text = {};
  };
  std::vector<SequenceOnPage> sequences() const;
  ShownTable shown_table(viz::PoolView& pool, const SequenceOnPage& sequence) const;
  std::vector<BlockCopy> copies() const;
  std::string chosen() const;

  std::vector<viz::Button> append_buttons(const std::string& who) const;
  void draw_simulator(viz::Ui& ui);
  void draw_sequence(viz::Ui& ui, const std::string& name);
  void draw_live(viz::Ui& ui);

  LiveSharing live_;
  std::unique_ptr<Simulator> simulator_;
  // What the last command left, and what was there before it.
  const BlockManager* shown_ = nullptr;  // whose it is; only compared
  Shown before_, now_;
  std::string custom_ = "10";  // what the field holds: tokens that the last append buttons append
};

}  // namespace lesson05
