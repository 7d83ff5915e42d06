#pragma once

// The page of lesson 05: every button is an operation of this lesson's BlockManager, or a step of
// its engine. page.cpp: what its commands do; page_draw.cpp: what it shows.

#include <memory>
#include <string>
#include <vector>

#include "page_live.h"
#include "page_simulator.h"
#include "viz/page.h"
#include "viz/widgets.h"

namespace lesson05 {

class SharingPage : public viz::Page {
 public:
  explicit SharingPage(const viz::PageContext& context);

  void reset() override;
  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override;
  void draw(viz::Ui& ui) override;

 protected:
  void changed() override;

 private:
  void declare_simulator();
  std::string start_live(bool beams, const viz::Words& words);
  const BlockManager& manager() const {
    return live_.running() ? live_.manager() : simulator_->manager();
  }
  /// Of the simulator or the engine, without labels and tokens.
  struct SequenceOnPage : viz::SequenceView {
    const BlockTable* table;
  };
  std::vector<SequenceOnPage> sequences() const;

  viz::Button append_button(const std::string& who, const std::string& count,
                            const std::string& id) const;
  std::vector<viz::Button> append_buttons(const std::string& who) const;
  void draw_simulator(viz::Ui& ui);
  void draw_sequence_buttons(viz::Ui& ui, const std::string& name) const;
  void draw_pool(viz::Ui& ui) const;
  void draw_live(viz::Ui& ui);
  std::vector<viz::TokenView> last_tokens(const LiveSharing::Sequence& sequence);

  LiveSharing live_;
  std::unique_ptr<Simulator> simulator_;
  // What the last command left, with what it changed marked.
  const BlockManager* shown_ = nullptr;  // whose it is; only compared
  viz::PoolView pool_;
  std::vector<viz::TableView> tables_;
  std::string custom_ = "100";  // what the field holds: tokens that the last append buttons append
};

}  // namespace lesson05
