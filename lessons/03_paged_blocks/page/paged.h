#pragma once

// The page of lesson 03: a pool of blocks, a table for each sequence, and the way from a token to
// its slot. page.cpp has its commands, scene.cpp its picture.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine.h"
#include "sequences.h"
#include "viz/pool_page.h"

namespace lesson03 {

struct PoolSize {
  int num_blocks = 24;
  int block_size = 4;
};

/// A sequence of the simulator, or of the running engine.
struct SequenceOnPage : viz::SequenceView {
  BlockTable table;
  std::vector<std::string> texts;  // of the tokens known; those beyond the table have no slot
  const std::string& text(int token) const { return texts[token]; }
};

/// A token whose way to its slot is shown.
struct Pointed {
  std::string name;
  int token = 0;
  bool operator==(const Pointed&) const = default;
};

/// The state that a picture shows.
struct Shown {
  std::vector<SequenceOnPage> sequences;
  int block_size = 0;
  std::vector<bool> used;  // [num_blocks] of the pool
  bool live = false;
  std::optional<Pointed> pointed;
  std::string refusal;  // of the last command; empty: it was done

  /// Null if there is no such sequence.
  const SequenceOnPage* find(const std::string& name) const;
  /// Tokens that the sequence had in its table; 0 if it was not there.
  int num_tokens(const std::string& name) const;
};

/// The sequence that is pointed at, has grown, was selected, or came last.
const std::string& in_focus(const Shown& before, const Shown& now, const std::string& selected);
viz::Scene paged_scene(const viz::Room& room, const Shown& before, const Shown& now,
                       const std::string& selected);

class PagedPage : public viz::PoolPage<Shown, PoolSize> {
 public:
  explicit PagedPage(const viz::PageContext& context);

  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override;
  viz::Scene scene(const viz::Room& room) override {
    return paged_scene(room, before_, now_, selected());
  }
  std::vector<viz::Button> actions() const override;
  void draw(viz::Ui& ui) override;

 private:
  std::string begin() override;
  Shown look() override;
  void refused(const viz::Command& command, const std::string& why) override;
  void declare_pool();
  std::string story();
  const BlockManager& manager() const {
    return live_.running() ? *live_.engine<PagedEngine>().manager() : pool_->manager();
  }
  std::vector<SequenceOnPage> sequences() const;

  std::unique_ptr<NamedSequences> pool_;
  std::optional<Pointed> pointed_;
};

}  // namespace lesson03
