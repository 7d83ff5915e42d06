#pragma once

// A scheduler that knows guesses: a pass runs them after the tokens that are known, and the tokens
// that are drawn then say which of them were right.

#include <map>

#include "drafter.h"
#include "lookahead_manager.h"

namespace lesson09 {

using lesson08::Chunk;
using lesson08::RequestState;
using lesson08::ScheduledRequest;
using lesson08::Scheduler;
using lesson08::SchedulerOptions;
using lesson08::SchedulerOutput;

struct LookaheadOptions {
  int num_guesses = 4;  // at most, of one request in one pass; 0: lesson 08
};
void check(const LookaheadOptions& options);  // throws UserError for those that make no sense

/// Lesson 08's scheduler decides as if there were no guesses; what it leaves of a pass's budget and
/// of the pool may be used for them. So nobody waits or is preempted for a guess.
///
/// Guesses are not among a request's tokens. An accepted one is a token whose pass has run already,
/// a rejected one was never there.
class LookaheadScheduler : public Scheduler {
 public:
  /// Borrows the manager and the drafter.
  LookaheadScheduler(LookaheadManager& manager, Drafter& drafter, const SchedulerOptions& options,
                     const LookaheadOptions& lookahead = {});

  /// The next pass, without guesses in its chunks. Guesses that nobody has judged are struck out.
  const SchedulerOutput& schedule() override;
  /// They run right after the request's chunk, in slots of their own; each gives a row of logits.
  /// None: an empty list.
  std::span<const int32_t> guesses(int64_t id) const;

  /// As Scheduler::add_token(). If the token is the next guess, that one is accepted: its K and V
  /// are there, and the request wants its next token, from the next row of logits. If not, the
  /// guesses that are left are struck out.
  void add_token(int64_t id, int32_t token) override;
  bool finish(int64_t id) override;

  int64_t num_proposed() const { return num_proposed_; }  // guesses that ran in a pass
  int64_t num_accepted() const { return num_accepted_; }  // and were right

 private:
  int room_for_guesses(const Chunk& chunk, int budget, bool may_take_blocks) const;
  void guess(const Chunk& chunk, int room);
  void strike_out(int64_t id);

  LookaheadManager* manager_;
  Drafter* drafter_;
  LookaheadOptions lookahead_;
  std::map<int64_t, std::vector<int32_t>> guesses_;  // of the last pass, not judged yet
  int64_t num_proposed_ = 0;
  int64_t num_accepted_ = 0;
};

}  // namespace lesson09
