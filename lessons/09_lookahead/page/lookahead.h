#pragma once

// The page of lesson 09: guesses laid into slots, accepted or struck out. page.cpp: what its
// commands do; passes.cpp: what a guess and a pass have done, of its own scheduler or of a live
// engine; scene.cpp: what it shows.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine.h"
#include "lessons/08_scheduler/page/live.h"
#include "viz/pool_page.h"
#include "viz/served_requests.h"

namespace lesson09 {

struct PageSettings {
  int num_blocks = 12;
  int block_size = 4;
  int num_guesses = 4;
};

/// A request on the page, also after its end.
struct Asked : viz::ServedRequest {
  std::vector<int32_t> text = {};  // prompt and answer; of a live run what is known of it
  int num_slots = 0;               // with those of guesses

  bool waits() const { return !ended && ids.empty(); }
  int num_known() const { return num_prompt + generated; }
  std::span<const int32_t> known() const { return std::span(text).first(num_known()); }
  /// Its last token is never run.
  int max_slots() const { return num_prompt + max_tokens - 1; }
};

/// A pool and its scheduler, without a model: the page knows the answers.
struct Serving {
  explicit Serving(const PageSettings& settings);
  /// Draws a token from each of at most `num_rows` rows of logits, while the request wants one.
  void draw(const Asked& asked, int num_rows);

  BlockPool pool;
  KvCacheManager manager;  // borrows the pool
  NgramDrafter drafter;
  LookaheadScheduler scheduler;  // borrows them all
  std::map<int64_t, int> num_drawn;
};

/// The engine, watched. It stands still twice in a pass: before it guesses, and before it runs.
class LiveLookahead : public lesson08::LiveServer<LookaheadEngine> {
 public:
  using LiveServer::LiveServer;

  /// One greedy request. Throws UserError for what the engine refuses.
  void serve(const PageSettings& settings, const std::string& prompt, int max_tokens);
  /// The pass that runs next. Null if the engine is before a guess or has ended.
  const SchedulerOutput* pass() const { return finished() || guesses_ ? nullptr : &output(); }

 private:
  bool guesses_ = false;  // it is before a guess
};

/// A request's share of a pass.
struct Part {
  int64_t id = 0;
  int hue = 0;
  std::string name = {};
  int first = 0;                      // position of its first token
  int num_rows = 0;                   // of known tokens
  std::vector<int32_t> guesses = {};  // in the rows after them
  int found = 0, length = 0;          // the n-gram that came before ends before token `found`
  int proposed = 0;                   // tokens that came after it; some may have no slot
  int accepted = 0, drawn = 0;        // known when the pass has run

  int num_guesses() const { return static_cast<int>(guesses.size()); }
  int first_guess() const { return first + num_rows; }
};

/// The state that a picture shows. The states of two commands give the motion between them.
struct Shown {
  viz::NamedList<Asked> asked{"request", 4};
  std::vector<int32_t> free = {};  // blocks, the next one first
  std::vector<std::vector<Part>> passes = {};
  bool composed = false;  // whether the last of the passes is still to run
  int num_without = 0;    // passes that draw the same tokens without guesses
  std::string reason = {}, points_at = {};

  int64_t num_run() const { return std::ssize(passes) - composed; }
  Asked& of(int64_t id) { return *std::ranges::find(asked, id, &Asked::id); }
};

class LookaheadPage : public viz::PoolPage<Shown, PageSettings, LiveLookahead> {
 public:
  explicit LookaheadPage(const viz::PageContext& context);

  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override;
  viz::Scene scene(const viz::Room& room) override;
  std::vector<viz::Button> actions() const override;
  void draw(viz::Ui& ui) override;

 private:
  // page.cpp
  std::vector<viz::Verb> requests();
  std::string begin() override;
  std::string why_not_add(const std::string& name, int num_prompt, int num_answer) const;
  std::string add(const std::string& name, const std::string& prompt, const std::string& answer);
  std::string live(const std::string& prompt, int max_tokens);

  // passes.cpp
  std::string guess();
  std::string pass();
  std::string step(int count);
  std::string live_step();
  std::string compose(const SchedulerOutput& output);
  Part part_of(const Chunk& chunk) const;
  std::string judge();
  void judge(Part& part);
  void catch_up();
  void refresh();
  Shown look() override;
  std::string tell_guess(const Part& part);
  std::string tell_pass(const Part& part, const Shown& was);
  std::string slot_id(const Asked& asked, int position) const;

  // Of the engine during a live run, else of the page.
  const KvCacheManager& manager() const {
    return live_.running() ? live_.server().manager() : serving_->manager;
  }
  const BlockPool& pool() const { return live_.running() ? live_.server().pool() : serving_->pool; }
  const LookaheadScheduler& scheduler() const {
    return live_.running() ? live_.server().scheduler() : serving_->scheduler;
  }

  friend class Picture;  // scene.cpp

  std::unique_ptr<Serving> serving_;
  std::unique_ptr<Serving> without_;  // the same requests, and no guesses
  int64_t num_accepted_ = 0;          // as the pictures show it
};

}  // namespace lesson09
