#pragma once

// The page of lesson 09: guesses laid into slots, accepted or struck out. page.cpp: what its
// commands do; page_passes.cpp: what a guess and a pass have done, of its own scheduler or of a
// live engine; page_scene.cpp, page_lanes.cpp and page_history.cpp: what it shows.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "page_serving.h"
#include "viz/names.h"
#include "viz/page.h"
#include "viz/parts.h"

namespace lesson09 {

/// A request on the page, also after its end.
struct Asked : viz::SequenceView {
  int64_t id = 0;  // the scheduler's
  std::vector<int32_t> prompt = {};
  std::vector<int32_t> answer = {};  // what the model says; of a live run: so far
  int most_answer = 0;               // tokens
  int num_drawn = 0;                 // of the answer
  bool ended = false;
  // As look() found it.
  bool waits = false;
  int num_computed = 0, num_slots = 0;  // the latter with guesses
  std::vector<int32_t> ids = {};        // its blocks

  int num_known() const { return static_cast<int>(prompt.size()) + num_drawn; }
  std::vector<int32_t> known() const;
};

/// A request's share of a pass.
struct Part {
  int64_t id = 0;
  int hue = 0;
  std::string name = {};
  int first = 0;                      // its first row is this token's
  int num_rows = 0;                   // of known tokens
  std::vector<int32_t> guesses = {};  // in the rows after them
  int proposed = 0;                   // by the drafter: there may be no slot for all
  int most = -1;                      // that it was asked for; -1: it was not asked
  int found = 0, length = 0;          // the n-gram that came before ends before token `found`
  int accepted = 0, drawn = 0;        // known when the pass has run
};

/// What a picture is made of, of two commands for the motion between them.
struct Shown {
  viz::NamedList<Asked> asked{"request", 4};
  std::vector<int32_t> free;  // blocks, the next one first
  int num_passes = 0;
  bool composed = false;
};

class LookaheadPage : public viz::Page {
 public:
  explicit LookaheadPage(const viz::PageContext& context);

  void reset() override;
  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override;
  viz::Scene scene(const viz::Room& room) override;
  void draw(viz::Ui& ui) override;

 protected:
  void changed() override;

 private:
  // page.cpp
  std::vector<viz::Verb> requests();
  std::vector<viz::Verb> pools();
  std::string restart(const PageSettings& settings);
  std::string begin(const PageSettings& settings);
  std::string why_not_add(const std::string& name, int num_prompt, int num_answer) const;
  std::string add(const std::string& name, const std::string& prompt, const std::string& answer);
  std::string finish(const std::string& name);
  std::string live(const std::string& prompt, int max_tokens);

  // page_passes.cpp
  std::string guess();
  std::string pass();
  std::string step(int count);
  std::string live_step();
  void compose(const LookaheadScheduler& of, const SchedulerOutput& output,
               const WatchedDrafter& drafter);
  void judge();
  void give(Serving& to, const Part& part);
  void catch_up();
  bool is_ahead() const;
  void look();
  std::string told_of_guesses() const;
  std::string told_of_pass() const;
  const LookaheadManager& manager() const;
  const BlockPool& pool() const { return static_cast<const BlockPool&>(manager().pool()); }
  const LookaheadScheduler* scheduler() const;  // null: the live run has ended
  Asked& asked_of(int64_t id) { return *std::ranges::find(shown_.asked, id, &Asked::id); }
  const Asked& asked_of(int64_t id) const {
    return *std::ranges::find(shown_.asked, id, &Asked::id);
  }
  std::string word(int32_t token) const;
  std::string quoted(std::span<const int32_t> tokens) const;
  int num_drawn() const;  // tokens of all passes

  friend class Picture;  // page_picture.h

  PageSettings settings_;
  std::unique_ptr<Serving> serving_;
  std::unique_ptr<Serving> without_;  // the same requests, and no guesses
  struct Without {
    std::vector<int> gains = {};            // [passes] tokens drawn
    std::map<int64_t, int> num_drawn = {};  // by request
  } told_without_;
  std::vector<Part> parts_;  // of the pass that is composed, or of the last one that ran
  std::vector<std::vector<Part>> passes_;  // that ran
  int64_t num_proposed_ = 0, num_accepted_ = 0;
  int64_t next_id_ = 0;
  viz::Vocabulary vocabulary_;
  mutable LiveLookahead live_;  // its tokenizer is loaded when it is first needed
  Shown shown_;                 // as it is, while a command runs
  Shown before_, now_;          // before and after the last command
};

}  // namespace lesson09
