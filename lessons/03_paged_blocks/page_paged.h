#pragma once

// The page of lesson 03: a pool of blocks, a table for each sequence, and the way from a token to
// its slot. page.cpp: what its commands do; page_draw.cpp: what it shows.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine.h"
#include "page_sequences.h"
#include "viz/live.h"
#include "viz/page.h"
#include "viz/widgets.h"

namespace lesson03 {

/// A sequence as it is shown: of the simulator, or of the running engine.
struct SequenceOnPage : viz::SequenceView {
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
  explicit PagedPage(const viz::PageContext& context);

  void reset() override;
  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override;
  void draw(viz::Ui& ui) override;

 protected:
  void changed() override;

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

  void draw_translation(viz::Ui& ui, const std::vector<SequenceOnPage>& all);
  void draw_sequence(viz::Ui& ui, const SequenceOnPage& sequence, const viz::TableView& table);

  viz::Live live_;
  std::unique_ptr<NamedSequences> pool_;
  std::optional<Pointed> pointed_;
  // Of the picture alone: the token under the mouse, and the one that is translated.
  std::optional<Pointed> hovered_;
  std::optional<Pointed> seen_;
};

}  // namespace lesson03
