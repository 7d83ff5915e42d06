#pragma once

// A simple, slow model of the scheduler, over the symbolic pool of lesson 07. For tests: it
// predicts which requests run, with how many tokens, in which blocks, and which are preempted.

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "lessons/07_lru_eviction/test/symbolic_pool.h"
#include "lessons/08_scheduler/scheduler.h"

namespace lesson08 {

class SymbolicScheduler {
 public:
  using Tokens = lesson07::SymbolicPool::Tokens;
  struct Request {
    Tokens tokens;
    int64_t arrival = 0;
    int priority = 0;
    int salt = 0;
    bool skips_reading = false;
    size_t computed = 0;       // tokens whose K and V are written
    bool wants_token = false;  // the next one is still to come
    bool was_preempted = false;
  };

  SymbolicScheduler(lesson07::SymbolicPool& pool, const SchedulerOptions& options)
      : pool_(&pool), options_(options) {}

  void submit(int64_t id, Tokens prompt, int priority, int salt, bool skips_reading) {
    requests_[id] = {std::move(prompt), num_submitted_++, priority, salt, skips_reading};
    wait(id);
  }

  SchedulerOutput schedule() {
    SchedulerOutput output;
    output.preempted = std::exchange(reset_, {});
    const size_t before = output.preempted.size();
    std::vector<Chunk>& chunks = output.chunks;
    size_t budget = options_.max_tokens_per_pass;
    bool ended = false;
    for (const int64_t id : std::vector<int64_t>(running_)) {
      if (budget == 0 || ended) break;
      if (!is_running(id)) continue;
      const Request& request = requests_.at(id);
      const Tokens next = next_tokens(request, request.computed, budget);
      if (next.empty()) continue;
      while (is_running(id) && !pool_->extend(id, next)) {
        const int64_t victim = least_important_running();
        const auto of_victim = [&](const Chunk& chunk) { return chunk.id == victim; };
        for (const Chunk& chunk : chunks) {
          if (of_victim(chunk)) budget += chunk.num_tokens;
        }
        std::erase_if(chunks, of_victim);
        preempt(victim);
        output.preempted.push_back(victim);
        ended = victim == id;
      }
      if (!is_running(id)) continue;
      chunks.push_back({id, static_cast<int>(next.size())});
      budget -= next.size();
    }
    while (output.preempted.size() == before && !waiting_.empty() && budget > 0 &&
           running_.size() < static_cast<size_t>(options_.max_running)) {
      const int64_t id = waiting_.front();
      Request& request = requests_.at(id);
      const size_t found = request.skips_reading
                               ? 0
                               : pool_->find(request.tokens, request.salt).size() * block_size();
      const Tokens next = next_tokens(request, found, budget);
      const size_t rest = request.tokens.size() - found;
      const size_t must_fit = options_.full_sequence_must_fit ? rest : 0;
      if (next.empty() || (!options_.chunked_prefill && next.size() < rest) ||
          !pool_->start(id, request.tokens, request.salt, next.size(), must_fit,
                        request.skips_reading)) {
        break;
      }
      waiting_.erase(waiting_.begin());
      running_.push_back(id);
      request.computed = found;
      (request.was_preempted ? output.resumed : output.started).push_back(id);
      chunks.push_back({id, static_cast<int>(next.size())});
      budget -= next.size();
    }
    return output;
  }
  void update(const std::vector<Chunk>& chunks) {
    for (const Chunk& chunk : chunks) {
      if (!is_running(chunk.id)) continue;
      Request& request = requests_.at(chunk.id);
      request.computed += chunk.num_tokens;
      pool_->cache_blocks(chunk.id, request.computed);
      request.wants_token = request.computed == request.tokens.size();
    }
  }
  void add_token(int64_t id, int32_t token) {
    requests_.at(id).tokens.push_back(token);
    requests_.at(id).wants_token = false;
  }
  void reset() {
    while (!running_.empty()) {
      reset_.push_back(running_.back());
      preempt(running_.back());
    }
    pool_->reset();
  }
  void finish(int64_t id) {
    if (is_running(id)) pool_->free(id);
    std::erase(running_, id);
    std::erase(waiting_, id);
    std::erase(reset_, id);
    requests_.erase(id);
  }

  const std::map<int64_t, Request>& requests() const { return requests_; }
  const std::vector<int64_t>& waiting() const { return waiting_; }
  const std::vector<int64_t>& running() const { return running_; }
  int64_t num_preemptions() const { return num_preemptions_; }
  bool is_running(int64_t id) const { return std::ranges::find(running_, id) != running_.end(); }

 private:
  size_t block_size() const { return pool_->block_size(); }
  Tokens next_tokens(const Request& request, size_t computed, size_t budget) const {
    if (request.wants_token) return {};
    size_t n = std::min(request.tokens.size() - computed, budget);
    if (options_.max_chunk > 0) n = std::min(n, static_cast<size_t>(options_.max_chunk));
    const auto begin = request.tokens.begin() + static_cast<std::ptrdiff_t>(computed);
    return Tokens(begin, begin + static_cast<std::ptrdiff_t>(n));
  }
  std::pair<int, int64_t> rank(int64_t id) const {  // the smaller one is more important
    const Request& request = requests_.at(id);
    return {options_.order == Order::kPriority ? request.priority : 0, request.arrival};
  }
  int64_t least_important_running() const {
    return *std::ranges::max_element(running_, {}, [&](int64_t id) { return rank(id); });
  }
  void wait(int64_t id) {
    waiting_.push_back(id);
    std::ranges::sort(waiting_, {}, [&](int64_t each) { return rank(each); });
  }
  void preempt(int64_t id) {
    pool_->free(id);
    std::erase(running_, id);
    requests_.at(id).computed = 0;
    requests_.at(id).was_preempted = true;
    ++num_preemptions_;
    wait(id);
  }

  lesson07::SymbolicPool* pool_;
  SchedulerOptions options_;
  std::map<int64_t, Request> requests_;
  std::vector<int64_t> waiting_, running_;
  std::vector<int64_t> reset_;  // preempted by a reset since the last pass
  int64_t num_submitted_ = 0;
  int64_t num_preemptions_ = 0;
};

}  // namespace lesson08
