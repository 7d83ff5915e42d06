#pragma once

// The parts that the page of lesson 09 watches: a scheduler that looks ahead, with its pool, and
// the engine. The engine stands still twice in a pass, before it guesses and before it runs.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine.h"
#include "lessons/08_scheduler/page/live.h"
#include "viz/names.h"

namespace lesson09 {

struct PageSettings {
  int num_blocks = 12;
  int block_size = 4;
  int num_guesses = 4;
};

/// A request on the page, also after its end.
struct Asked : viz::SequenceView {
  int64_t id = 0;  // the scheduler's
  std::vector<int32_t> prompt = {};
  std::vector<int32_t> answer = {};  // the model's answer; in a live run the part generated so far
  int max_answer = 0;                // tokens
  int num_drawn = 0;                 // of the answer
  bool ended = false;
  // As of the page's last look().
  bool waits = false;
  int num_computed = 0, num_slots = 0;  // the latter with guesses
  std::vector<int32_t> ids = {};        // its blocks

  int num_known() const { return static_cast<int>(prompt.size()) + num_drawn; }
  int max_slots() const { return static_cast<int>(prompt.size()) + max_answer - 1; }
  std::vector<int32_t> known() const;
};

/// A drafter's guesses, and the number that it was asked for at most.
struct Draft {
  int most = 0;
  std::vector<int32_t> tokens;
};

/// The lesson's drafter, watched.
class WatchedDrafter : public Drafter {
 public:
  /// Called before each guess. Returns false if the run is cancelled; then nothing is guessed.
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

/// A pool and its scheduler, without a model: the page knows the answers.
struct Serving {
  explicit Serving(const PageSettings& settings);
  /// Draws a token from each of at most `num_rows` rows of logits, while the request wants one.
  /// Returns the number of tokens drawn.
  int give(const Asked& asked, int num_rows);

  BlockPool pool;
  KvCacheManager manager;  // borrows the pool
  WatchedDrafter drafter;
  LookaheadScheduler scheduler;  // borrows them all
  std::map<int64_t, int> num_drawn;
  std::vector<int> gains;  // [passes] tokens drawn
};

/// The engine, watched.
class LiveLookahead : public lesson08::LiveServer<LookaheadEngine> {
 public:
  using LiveServer::LiveServer;

  /// One greedy request. Throws UserError for what the engine refuses.
  void serve(const PageSettings& settings, const std::string& prompt, int max_tokens);
  /// Runs the engine to its next stop: before a guess, or before a pass.
  void step();

  const Server& server() const { return *engine<LookaheadEngine>().server(); }
  const WatchedDrafter& drafter() const { return *drafter_; }
  /// The pass that runs next. Null if the engine stands before a guess or has ended.
  const SchedulerOutput* pass() const { return finished() || guesses_ ? nullptr : &output(); }
  /// Generated so far.
  const std::vector<int32_t>& answer() const { return answers()[0]; }

 private:
  WatchedDrafter* drafter_ = nullptr;  // the engine's
  bool guesses_ = false;               // it stands before a guess
};

}  // namespace lesson09
