#pragma once

// A simple, slow model of a scheduler with guesses, over lesson 08's symbolic one. For tests.

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "lessons/08_scheduler/test/symbolic_scheduler.h"
#include "lessons/09_lookahead/drafter.h"

namespace lesson09 {

/// A pool whose requests can lose their last slots.
class SymbolicLookaheadPool : public lesson07::SymbolicPool {
 public:
  using SymbolicPool::SymbolicPool;
  void rewind(int64_t id, size_t num_tokens) {
    Request& r = requests_.at(id);
    const size_t kept = (num_tokens + block_size_ - 1) / block_size_;
    release({r.table.begin() + static_cast<std::ptrdiff_t>(kept), r.table.end()});
    r.table.resize(kept);
    r.tokens.resize(num_tokens);
  }
};

class SymbolicLookahead : public lesson08::SymbolicScheduler {
 public:
  SymbolicLookahead(SymbolicLookaheadPool& pool, Drafter& drafter,
                    const lesson08::SchedulerOptions& options, int num_guesses)
      : SymbolicScheduler(pool, options),
        pool_(&pool),
        drafter_(&drafter),
        options_(options),
        num_guesses_(num_guesses) {}

  void submit(int64_t id, Tokens prompt, int max_tokens, int priority, int salt, bool skips) {
    max_tokens_[id] = prompt.size() + static_cast<size_t>(max_tokens);
    SymbolicScheduler::submit(id, std::move(prompt), priority, salt, skips);
  }

  lesson08::SchedulerOutput schedule() {
    for (const auto& [id, guesses] : std::exchange(guesses_, {})) strike_out(id);
    const lesson08::SchedulerOutput output = SymbolicScheduler::schedule();
    size_t used = 0;
    for (const auto& chunk : output.chunks) used += chunk.num_tokens;
    for (const auto& chunk : output.chunks) {
      const Request& r = requests().at(chunk.id);
      const size_t end = r.computed + static_cast<size_t>(chunk.num_tokens);
      Tokens guesses;
      if (end == r.tokens.size()) guesses = drafter_->propose(chunk.id, r.tokens, num_guesses_);
      // One by one: is there room for this one, too?
      size_t taken = 0;
      for (; taken < guesses.size(); ++taken) {
        const bool in_budget = used < static_cast<size_t>(options_.max_tokens_per_pass);
        const bool in_chunk = options_.max_chunk == 0 ||
                              end + taken - r.computed < static_cast<size_t>(options_.max_chunk);
        const bool asked_for = end + taken + 1 < max_tokens_.at(chunk.id);
        const bool needs_block = (end + taken) % pool_->block_size() == 0;
        if (!in_budget || !in_chunk || !asked_for || (needs_block && !waiting().empty())) break;
        const int32_t guess = guesses[taken];
        if (!pool_->extend(chunk.id, {&guess, 1})) break;
        ++used;
      }
      guesses.resize(taken);
      if (!guesses.empty()) guesses_[chunk.id] = guesses;
    }
    return output;
  }
  void add_token(int64_t id, int32_t token) {
    SymbolicScheduler::add_token(id, token);
    if (!guesses_.contains(id)) return;
    Tokens& guesses = guesses_.at(id);
    const bool right = is_running(id) && guesses.front() == token;
    if (!right) {
      guesses_.erase(id);
      return strike_out(id);
    }
    guesses.erase(guesses.begin());
    if (guesses.empty()) guesses_.erase(id);
    update({{id, 1}});
  }
  void finish(int64_t id) {
    guesses_.erase(id);
    SymbolicScheduler::finish(id);
  }
  Tokens guesses(int64_t id) const { return guesses_.contains(id) ? guesses_.at(id) : Tokens{}; }

 private:
  void strike_out(int64_t id) {
    if (is_running(id)) pool_->rewind(id, requests().at(id).computed);
  }

  SymbolicLookaheadPool* pool_;
  Drafter* drafter_;
  lesson08::SchedulerOptions options_;
  int num_guesses_;
  std::map<int64_t, size_t> max_tokens_;
  std::map<int64_t, Tokens> guesses_;
};

}  // namespace lesson09
