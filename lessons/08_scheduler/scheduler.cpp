#include "scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
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
  chunks_.reserve(static_cast<size_t>(options.max_running));
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
  Queue queue(1);
  ScheduledRequest& request = queue.front();
  request.id = id;
  request.priority = priority;
  request.arrival = num_submitted_;
  request.tokens.reserve(static_cast<size_t>(slots) + 1);
  request.tokens.assign(prompt.begin(), prompt.end());
  request.num_prompt = static_cast<int>(prompt.size());
  request.extra_keys = std::move(extra_keys);
  requests_.emplace(id, queue.begin());
  // Nothing from here on allocates for this request, nor can fail.
  ++num_submitted_;
  wait(queue, queue.begin());
}

/// a is more important.
bool Scheduler::before(const ScheduledRequest& a, const ScheduledRequest& b) const {
  if (options_.order == Order::kPriority && a.priority != b.priority) {
    return a.priority < b.priority;
  }
  return a.arrival < b.arrival;
}

void Scheduler::wait(Queue& from, Queue::iterator request) {
  request->state = RequestState::kWaiting;
  auto place = waiting_.end();
  while (place != waiting_.begin() && before(*request, *std::prev(place))) --place;
  waiting_.splice(place, from, request);
}

int Scheduler::chunk_of(const ScheduledRequest& request, int num_computed, int budget) const {
  int tokens = std::min(static_cast<int>(request.tokens.size()) - num_computed, budget);
  if (options_.max_chunk > 0) tokens = std::min(tokens, options_.max_chunk);
  return tokens;
}

const std::vector<Chunk>& Scheduler::schedule() {
  chunks_.clear();
  int budget = options_.max_tokens_per_pass;
  if (schedule_running(budget)) schedule_waiting(budget);
  return chunks_;
}

void Scheduler::add_chunk(const ScheduledRequest& request, int num_tokens, int& budget) {
  chunks_.push_back({.id = request.id, .num_tokens = num_tokens});
  budget -= num_tokens;
}

/// Of a request that leaves the batch: its tokens leave the budget, too.
void Scheduler::take_chunk_back(const ScheduledRequest& request, int& budget) {
  const auto chunk = std::ranges::find(chunks_, request.id, &Chunk::id);
  if (chunk == chunks_.end()) return;
  budget += chunk->num_tokens;
  chunks_.erase(chunk);
}

/// False: somebody was preempted.
bool Scheduler::schedule_running(int& budget) {
  const int64_t preempted_before = num_preemptions_;
  auto request = running_.begin();
  while (request != running_.end() && budget > 0) {
    const int tokens = chunk_of(*request, request->num_computed, budget);
    bool runs = tokens > 0;
    if (!runs) ++request;  // its next token is still to come
    while (runs && !manager_->allocate_slots(request->id, tokens)) {
      const auto victim = std::ranges::max_element(
          running_, [&](const auto& a, const auto& b) { return before(a, b); });
      runs = victim != request;
      take_chunk_back(*victim, budget);  // it may have one already
      const auto next = preempt(victim);
      if (!runs) request = next;
    }
    if (runs) add_chunk(*request++, tokens, budget);
  }
  return num_preemptions_ == preempted_before;
}

void Scheduler::schedule_waiting(int& budget) {
  while (!waiting_.empty() && budget > 0 &&
         static_cast<int>(running_.size()) < options_.max_running) {
    ScheduledRequest& request = waiting_.front();
    const ComputedBlocks computed =
        manager_->get_computed_blocks(request.tokens, request.extra_keys);
    const int tokens = chunk_of(request, computed.num_tokens, budget);
    if (!manager_->allocate_slots(request.id, tokens, computed)) return;
    running_.splice(running_.end(), waiting_, waiting_.begin());
    request.state = RequestState::kRunning;
    request.num_computed = request.num_cached = computed.num_tokens;
    add_chunk(request, tokens, budget);
  }
}

/// Returns the running request after it.
Scheduler::Queue::iterator Scheduler::preempt(Queue::iterator request) {
  const auto next = std::next(request);
  manager_->free(request->id);
  request->num_computed = 0;  // recomputation: what the cache still has is found again
  ++request->num_preemptions;
  ++num_preemptions_;
  wait(running_, request);
  return next;
}

void Scheduler::update(std::span<const Chunk> chunks) {
  for (const Chunk& chunk : chunks) {
    const auto found = requests_.find(chunk.id);
    // Cancelled while the pass ran, and perhaps submitted again.
    if (found == requests_.end() || found->second->state != RequestState::kRunning) continue;
    ScheduledRequest& request = *found->second;
    const int computed = request.num_computed + chunk.num_tokens;
    if (computed / manager_->block_size() > request.num_computed / manager_->block_size()) {
      manager_->cache_blocks(chunk.id, request.tokens, computed);  // one block more is full
    }
    request.num_computed = computed;
  }
}

bool Scheduler::wants_token(const ScheduledRequest& r) {
  return r.state == RequestState::kRunning && r.num_computed == static_cast<int>(r.tokens.size());
}

void Scheduler::add_token(int64_t id, int32_t token) {
  const auto found = requests_.find(id);
  if (found == requests_.end() || !wants_token(*found->second)) {
    throw std::logic_error(
        fmt::format("Scheduler: request {} is given a token it has no logits for", id));
  }
  found->second->tokens.push_back(token);
}

bool Scheduler::finish(int64_t id) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return false;
  if (manager_->holds(id)) manager_->free(id);
  Queue& queue = found->second->state == RequestState::kRunning ? running_ : waiting_;
  queue.erase(found->second);
  requests_.erase(found);
  return true;
}

const ScheduledRequest& Scheduler::request(int64_t id) const {
  const auto found = requests_.find(id);
  if (found == requests_.end()) {
    throw std::out_of_range(fmt::format("Scheduler: there is no request {}", id));
  }
  return *found->second;
}

std::vector<int64_t> Scheduler::ids_of(const Queue& queue) {
  std::vector<int64_t> ids;
  for (const ScheduledRequest& request : queue) ids.push_back(request.id);
  return ids;
}

}  // namespace lesson08
