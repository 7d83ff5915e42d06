#pragma once

// What the page of lesson 09 watches: a scheduler that looks ahead, with its pool; and the engine,
// which stands still twice in a pass, before it guesses and before it runs.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine.h"
#include "viz/live.h"

namespace lesson09 {

struct PageSettings {
  int num_blocks = 12;
  int block_size = 4;
  int num_guesses = 4;
};

/// What a drafter was asked, and what it said.
struct Draft {
  int most = 0;
  std::vector<int32_t> tokens;
};

/// The lesson's drafter, watched.
class WatchedDrafter : public Drafter {
 public:
  /// Called before each guess. False: the run is cancelled, and nothing is guessed.
  using Before = std::function<bool()>;
  explicit WatchedDrafter(Before before = [] { return true; }) : before_(std::move(before)) {}
  std::vector<int32_t> propose(int64_t id, std::span<const int32_t> tokens, int most) override;

  /// By request, since the last clear().
  const std::map<int64_t, Draft>& drafts() const { return drafts_; }
  void clear() { drafts_.clear(); }

 private:
  NgramDrafter ngrams_;
  Before before_;
  std::map<int64_t, Draft> drafts_;
};

/// A pool, and who shares it, without a model.
struct Serving {
  explicit Serving(const PageSettings& settings);
  BlockPool pool;
  LookaheadManager manager;  // borrows the pool
  WatchedDrafter drafter;
  LookaheadScheduler scheduler;  // borrows both
};

/// The engine, watched.
class LiveLookahead : public viz::Live {
 public:
  using Live::Live;

  /// One greedy request. Throws UserError for what the engine refuses.
  void serve(const PageSettings& settings, const std::string& prompt, int max_tokens);

  const LookaheadManager& manager() const { return *engine<LookaheadEngine>().manager(); }
  /// The engine's own. Null: the run has ended.
  const LookaheadScheduler* scheduler() const { return finished() ? nullptr : scheduler_; }
  const WatchedDrafter& drafter() const { return *drafter_; }
  /// The pass that it stands before. Null: it stands before a guess, or has ended.
  const SchedulerOutput* pass() const { return finished() ? nullptr : pass_; }
  /// Generated so far.
  const std::vector<int32_t>& answer() const { return answer_; }

 private:
  const LookaheadScheduler* scheduler_ = nullptr;  // while the engine serves
  const SchedulerOutput* pass_ = nullptr;
  WatchedDrafter* drafter_ = nullptr;  // the engine's
  std::vector<int32_t> answer_;
};

}  // namespace lesson09
