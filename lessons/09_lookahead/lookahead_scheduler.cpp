#include "lookahead_scheduler.h"

#include <algorithm>

#include "common/error.h"

namespace lesson09 {

void check(const LookaheadOptions& options) {
  if (options.num_guesses < 0) kv::user_error("{} guesses: wanted at least 0", options.num_guesses);
}

LookaheadScheduler::LookaheadScheduler(KvCacheManager& manager, BlockPool& pool, Drafter& drafter,
                                       const SchedulerOptions& options,
                                       const LookaheadOptions& lookahead)
    : Scheduler(manager, options),
      manager_(&manager),
      pool_(&pool),
      drafter_(&drafter),
      lookahead_(lookahead) {
  lesson09::check(lookahead);
}

const SchedulerOutput& LookaheadScheduler::schedule() {
  while (!guesses_.empty()) strike_out(guesses_.begin()->first);
  const SchedulerOutput& output = Scheduler::schedule();
  int budget = options().max_tokens_per_pass;
  for (const Chunk& chunk : output.chunks) budget -= chunk.num_tokens;
  const bool may_take_blocks = waiting().empty();  // otherwise waiting requests need them
  for (const Chunk& chunk : output.chunks) {
    guess(chunk, room_for_guesses(chunk, budget, may_take_blocks));
    budget -= static_cast<int>(guesses(chunk.id).size());
  }
  return output;
}

/// The number of guesses that may follow a chunk, in a pass that has room for `budget` more tokens.
int LookaheadScheduler::room_for_guesses(const Chunk& chunk, int budget,
                                         bool may_take_blocks) const {
  const ScheduledRequest& r = request(chunk.id);
  const int known = static_cast<int>(r.tokens.size());
  // The chunk stops short of the last known token, so no guess can follow it. This happens even
  // with budget left, when a preempted request has returned its tokens.
  if (r.num_computed + chunk.num_tokens < known) return 0;
  // A guess is at best the last token but one: the last token is never run.
  int room = std::min({lookahead_.num_guesses, budget, r.num_prompt + r.max_tokens - known - 1});
  const int max_chunk = options().max_chunk;
  if (max_chunk > 0) room = std::min(room, max_chunk - chunk.num_tokens);
  if (may_take_blocks) return room;
  const lesson03::BlockTable& table = manager_->table(chunk.id);
  return std::min(room, table.block_size() - table.last_block_fill());
}

void LookaheadScheduler::guess(const Chunk& chunk, int room) {
  if (room <= 0) return;
  std::vector<int32_t> guesses = drafter_->propose(chunk.id, request(chunk.id).tokens, room);
  if (std::ssize(guesses) > room) guesses.resize(room);
  // The pool may have no block for all of them.
  while (!guesses.empty() &&
         !manager_->allocate_slots(chunk.id, static_cast<int>(guesses.size()))) {
    guesses.pop_back();
  }
  if (guesses.empty()) return;
  num_proposed_ += std::ssize(guesses);
  guesses_[chunk.id] = std::move(guesses);
}

std::span<const int32_t> LookaheadScheduler::guesses(int64_t id) const {
  const auto found = guesses_.find(id);
  if (found == guesses_.end()) return {};
  return found->second;
}

void LookaheadScheduler::add_token(int64_t id, int32_t token) {
  Scheduler::add_token(id, token);
  const auto found = guesses_.find(id);
  if (found == guesses_.end()) return;
  std::vector<int32_t>& guesses = found->second;
  const bool right = guesses.front() == token && manager_->holds(id);
  if (!right) return strike_out(id);
  guesses.erase(guesses.begin());
  if (guesses.empty()) guesses_.erase(found);
  ++num_accepted_;
  const Chunk its_pass{.id = id, .num_tokens = 1};  // the guess has run already
  update({&its_pass, 1});
}

/// Drops the rest of a request's guesses. A preempted request has no slots to take back.
void LookaheadScheduler::strike_out(int64_t id) {
  guesses_.erase(id);
  if (!manager_->holds(id)) return;
  rewind(*manager_, *pool_, id, request(id).num_computed);
}

bool LookaheadScheduler::finish(int64_t id) {
  guesses_.erase(id);
  return Scheduler::finish(id);
}

}  // namespace lesson09
