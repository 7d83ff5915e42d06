#pragma once

// The page of lesson 03: a pool of blocks, a table for each sequence, and the way from a token to
// its slot. page.cpp: what its commands do; page_scene.cpp: its picture; page_draw.cpp: its
// buttons.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine.h"
#include "page_lane.h"
#include "page_sequences.h"
#include "viz/live.h"
#include "viz/page.h"

namespace lesson03 {

/// A token that somebody points at.
struct Pointed {
  std::string name;
  int token = 0;
  bool operator==(const Pointed&) const = default;
};

/// What the last command has changed.
struct Change {
  std::map<std::string, int> grown = {};                  // how many tokens they had before
  std::map<std::string, std::vector<int32_t>> gone = {};  // the blocks that they had
  bool pointed = false;
  bool refused = false;
  std::string why = {};  // in one sentence
};

class PagedPage : public viz::Page {
 public:
  explicit PagedPage(const viz::PageContext& context);

  void reset() override;
  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override;
  viz::Scene scene(const viz::Room& room) override;
  void draw(viz::Ui& ui) override;

 protected:
  void changed() override;
  void refused(const viz::Command& command, const std::string& why) override;

 private:
  std::string point(const std::string& name, int token);
  std::string story();
  const BlockManager& manager() const {
    return live_.running() ? *live_.engine<PagedEngine>().manager() : pool_->manager();
  }
  std::vector<viz::SequenceView> sequences() const;
  /// Null: there is no such sequence (any more).
  const BlockTable* table_of(const std::string& name) const;
  /// The table of the sequence, if the token has a slot in it.
  const BlockTable* table_of(const std::optional<Pointed>& pointed) const;
  std::vector<SequenceOnPage> shown();
  /// The sequence that is pointed at, has grown, was selected, or came last.
  const std::string& in_focus(const std::vector<SequenceOnPage>& all) const;
  std::string why() const;

  struct Way;
  static Way way_of(const SequenceOnPage& sequence, int token);
  static void draw_way(viz::Scene& scene, Way& way, const std::string& id, int hue, bool only_lit,
                       bool one_by_one);
  static void connect(viz::Scene& scene, const SequenceOnPage& sequence);
  static void connect(viz::Scene& scene, const SequenceOnPage& sequence, int token);
  void draw_cards(viz::Scene& scene, const viz::Place& at, float unit,
                  const std::vector<SequenceOnPage>& all) const;
  void draw_lanes(viz::Scene& scene, const viz::Place& at, float unit,
                  const std::vector<SequenceOnPage>& all) const;
  void draw_pool(viz::Scene& scene, const viz::Place& at, float unit,
                 const std::vector<SequenceOnPage>& all) const;
  void draw_pointed(viz::Scene& scene, const SequenceOnPage& sequence) const;
  void move_new(viz::Scene& scene, const SequenceOnPage& sequence) const;
  void move_gone(viz::Scene& scene) const;

  viz::Live live_;
  std::unique_ptr<NamedSequences> pool_;
  std::optional<Pointed> pointed_;

  /// As it was before the last command.
  struct Before {
    bool live = false;
    std::map<std::string, std::pair<int, std::vector<int32_t>>> held = {};  // tokens and blocks
    std::optional<Pointed> pointed = {};
    int free_run = 0;  // so many free blocks lay in a row
  };
  Before before_;
  Change change_;
};

}  // namespace lesson03
