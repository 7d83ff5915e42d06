#include "scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "common/base/error.h"

namespace lesson08 {

Scheduler::Scheduler(KvCacheManager& manager, const SchedulerOptions& options)
    : manager_(&manager), options_(options) {
  if (options.max_tokens_per_pass < 1 || options.max_running < 1 || options.max_chunk < 0) {
    kv::user_error("token budget {}, running requests {}, chunk {}: wanted at least 1, 1, and 0",
                   options.max_tokens_per_pass, options.max_running, options.max_chunk);
  }
}

void Scheduler::submit(int64_t id, std::span<const int32_t> prompt, int max_tokens, int priority,
                       ExtraKeys extra_keys) {
  if (requests_.contains(id)) kv::user_error("there is a request {} already", id);
  if (prompt.empty()) kv::user_error("request {} has an empty prompt", id);
  if (max_tokens < 1)
    kv::user_error("request {} wants {} tokens, at least 1 is possible", id, max_tokens);
  // The last generated token is never run: it needs no slot.
  const int64_t slots = static_cast<int64_t>(prompt.size()) + max_tokens - 1;
  const int64_t needed = (slots + manager_->block_size() - 1) / manager_->block_size();
  if (needed > manager_->pool().num_blocks()) {
    kv::user_error(
        "request {} needs {} blocks, the pool has {}; generate fewer tokens or give the "
        "pool more blocks",
        id, needed, manager_->pool().num_blocks());
  }
  ScheduledRequest request;
  request.id = id;
  request.priority = priority;
  request.arrival = num_submitted_++;
  request.tokens.assign(prompt.begin(), prompt.end());
  request.num_prompt = static_cast<int>(prompt.size());
  request.extra_keys = std::move(extra_keys);
  request.tokens.reserve(static_cast<size_t>(slots) + 1);
  make_room(requests_.size() + 1);
  wait(requests_.emplace(id, std::move(request)).first->second);
}

bool Scheduler::before(const ScheduledRequest* a, const ScheduledRequest* b) const {
  if (options_.order == Order::kPriority && a->priority != b->priority) {
    return a->priority < b->priority;
  }
  return a->arrival < b->arrival;
}

void Scheduler::make_room(size_t num_requests) {
  if (num_requests <= waiting_.capacity() && num_requests <= chunks_.capacity()) return;
  running_.reserve(2 * num_requests);
  order_.reserve(2 * num_requests);
  waiting_.reserve(2 * num_requests);
  chunks_.reserve(2 * num_requests);
}

void Scheduler::wait(ScheduledRequest& request) {
  request.state = RequestState::kWaiting;
  const auto more_important = [&](const auto* a, const auto* b) { return before(a, b); };
  waiting_.insert(std::ranges::upper_bound(waiting_, &request, more_important), &request);
}

int Scheduler::chunk_of(const ScheduledRequest& request, int num_computed, int budget) const {
  int tokens = std::min(static_cast<int>(request.tokens.size()) - num_computed, budget);
  if (options_.max_chunk > 0) tokens = std::min(tokens, options_.max_chunk);
  return tokens;
}

const std::vector<Chunk>& Scheduler::schedule() {
  chunks_.clear();
  int budget = options_.max_tokens_per_pass;
  bool preempted = false;
  schedule_running(budget, preempted);
  if (!preempted) schedule_waiting(budget);
  return chunks_;
}

void Scheduler::schedule_running(int& budget, bool& preempted) {
  order_ = running_;  // preemption changes the original
  for (ScheduledRequest* const request : order_) {
    if (budget == 0) return;
    if (request->state != RequestState::kRunning) continue;  // a victim of this loop
    const int tokens = chunk_of(*request, request->num_computed, budget);
    while (request->state == RequestState::kRunning &&
           !manager_->allocate_slots(request->id, tokens)) {
      ScheduledRequest& victim = choose_victim();
      // One that has its chunk already leaves the batch, and its tokens leave the budget.
      const auto chunk = std::ranges::find(chunks_, victim.id, &Chunk::id);
      if (chunk != chunks_.end()) {
        budget += chunk->num_tokens;
        chunks_.erase(chunk);
      }
      preempt(victim);
      preempted = true;
    }
    if (request->state != RequestState::kRunning) continue;  // it was the victim itself
    chunks_.push_back({.id = request->id, .num_tokens = tokens});
    budget -= tokens;
  }
}

void Scheduler::schedule_waiting(int& budget) {
  while (!waiting_.empty() && budget > 0 &&
         static_cast<int>(running_.size()) < options_.max_running) {
    ScheduledRequest& request = *waiting_.front();
    const ComputedBlocks computed =
        manager_->get_computed_blocks(request.tokens, request.extra_keys);
    const int tokens = chunk_of(request, computed.num_tokens, budget);
    if (!manager_->allocate_slots(request.id, tokens, computed, request.extra_keys)) return;
    waiting_.erase(waiting_.begin());
    running_.push_back(&request);
    request.state = RequestState::kRunning;
    request.num_computed = request.num_cached = computed.num_tokens;
    chunks_.push_back({.id = request.id, .num_tokens = tokens});
    budget -= tokens;
  }
}

ScheduledRequest& Scheduler::choose_victim() const {
  return **std::ranges::max_element(running_,
                                    [&](const auto* a, const auto* b) { return before(a, b); });
}

void Scheduler::preempt(ScheduledRequest& request) {
  manager_->free(request.id);
  std::erase(running_, &request);
  request.num_computed = 0;  // recomputation: what the cache still has is found again
  ++request.num_preemptions;
  ++num_preemptions_;
  wait(request);
}

void Scheduler::update(std::span<const Chunk> chunks) {
  for (const Chunk& chunk : chunks) {
    const auto found = requests_.find(chunk.id);
    // Cancelled while the pass ran, and perhaps submitted again.
    if (found == requests_.end() || found->second.state != RequestState::kRunning) continue;
    ScheduledRequest& request = found->second;
    const int full = request.num_computed / manager_->block_size();
    request.num_computed += chunk.num_tokens;
    if (request.num_computed / manager_->block_size() == full) continue;  // no block more is full
    manager_->cache_blocks(chunk.id, request.tokens, request.num_computed);
  }
}

bool Scheduler::wants_token(const ScheduledRequest& r) {
  return r.state == RequestState::kRunning && r.num_computed == static_cast<int>(r.tokens.size());
}

void Scheduler::add_token(int64_t id, int32_t token) {
  ScheduledRequest& request = find(id);
  if (!wants_token(request)) {
    throw std::logic_error(
        fmt::format("Scheduler: request {} is given a token it has no logits for", id));
  }
  request.tokens.push_back(token);
}

bool Scheduler::finish(int64_t id) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return false;
  if (manager_->holds(id)) manager_->free(id);
  std::erase(running_, &found->second);
  std::erase(waiting_, &found->second);
  requests_.erase(found);
  return true;
}

const ScheduledRequest& Scheduler::request(int64_t id) const {
  const auto found = requests_.find(id);
  if (found == requests_.end()) {
    throw std::out_of_range(fmt::format("Scheduler: there is no request {}", id));
  }
  return found->second;
}

ScheduledRequest& Scheduler::find(int64_t id) { return const_cast<ScheduledRequest&>(request(id)); }

void Scheduler::check() const {
  manager_->check();
  if (requests_.size() != waiting_.size() + running_.size()) {
    throw std::logic_error(fmt::format("{} requests, {} waiting and {} running", requests_.size(),
                                       waiting_.size(), running_.size()));
  }
  for (const int64_t id : waiting()) {
    if (request(id).state != RequestState::kWaiting || manager_->holds(id)) {
      throw std::logic_error(fmt::format("request {} waits and holds blocks, or runs", id));
    }
  }
  for (const int64_t id : running()) {
    if (request(id).state != RequestState::kRunning || !manager_->holds(id)) {
      throw std::logic_error(fmt::format("request {} runs without blocks, or waits", id));
    }
    if (request(id).num_computed > manager_->table(id).num_tokens()) {
      throw std::logic_error(fmt::format("request {} has computed more than it has slots", id));
    }
  }
  for (size_t i = 1; i < waiting_.size(); ++i) {
    if (before(waiting_[i], waiting_[i - 1])) {
      throw std::logic_error("the waiting queue is out of order");
    }
  }
}

}  // namespace lesson08
