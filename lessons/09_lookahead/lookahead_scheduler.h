#pragma once

// A scheduler with guesses: a pass runs them after the known tokens, and the tokens that are drawn
// then show which guesses were right.

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "drafter.h"
#include "rewind.h"

namespace lesson09 {

using lesson08::Chunk;
using lesson08::ScheduledRequest;
using lesson08::Scheduler;
using lesson08::SchedulerOptions;
using lesson08::SchedulerOutput;

struct LookaheadOptions {
  int num_guesses = 4;  // most guesses per request and pass; 0 means none
};
void check(const LookaheadOptions& options);  // throws UserError for invalid options

/// Lesson 08's scheduler plans a pass as if there were no guesses. Guesses then get the budget and
/// the free blocks that the pass leaves. So no request waits or is preempted for a guess.
///
/// Guesses are not among a request's tokens. An accepted guess becomes a token that has run
/// already; a rejected one leaves no trace.
class LookaheadScheduler : public Scheduler {
 public:
  /// Borrows the manager, its pool, and the drafter.
  LookaheadScheduler(KvCacheManager& manager, BlockPool& pool, Drafter& drafter,
                     const SchedulerOptions& options, const LookaheadOptions& lookahead = {});

  /// The next pass, without guesses in its chunks. Guesses of the last pass that were not judged
  /// are dropped.
  const SchedulerOutput& schedule() override;
  /// The guesses of a request that run right after its chunk, in slots of their own; each gives a
  /// row of logits. Empty if it has none.
  std::span<const int32_t> guesses(int64_t id) const;

  /// As Scheduler::add_token(). If the token is the next guess, that guess is accepted: its K and V
  /// are there. The request then needs its next token, from the next row of logits. If the token is
  /// a different one, the remaining guesses are dropped.
  void add_token(int64_t id, int32_t token) override;
  bool finish(int64_t id) override;

  int64_t num_proposed() const { return num_proposed_; }  // guesses that ran in a pass
  int64_t num_accepted() const { return num_accepted_; }  // and were right

 private:
  int room_for_guesses(const Chunk& chunk, int budget, bool may_take_blocks) const;
  void guess(const Chunk& chunk, int room);
  void strike_out(int64_t id);

  KvCacheManager* manager_;
  BlockPool* pool_;
  Drafter* drafter_;
  LookaheadOptions lookahead_;
  std::map<int64_t, std::vector<int32_t>> guesses_;  // of the last pass, not judged yet
  int64_t num_proposed_ = 0;
  int64_t num_accepted_ = 0;
};

}  // namespace lesson09
