// Exercise of lesson 08: write what is missing here, then `./course exercise 8`.
// What each function promises stands in ../scheduler.h. The lesson's version is ../scheduler.cpp:
// try before you look.

#include "scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "common/error.h"
#include "common/todo.h"

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
  // What is known less what is computed; at most the budget; at most max_chunk, unless that is 0.
  KV_TODO("Scheduler::chunk_of");
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
  // In the order in which they started, while there is budget: slots for the next chunk. If the
  // manager has no room, preempt the least important running request and ask again. The victim may
  // have its chunk already: take it back, and give its tokens back to the budget. The victim may be
  // the request itself. Preempting changes running_, so go through a copy (order_).
  KV_TODO("Scheduler::schedule_running");
}

void Scheduler::schedule_waiting(int& budget) {
  // The first of the queue starts while there is budget and max_running allows: what the cache has,
  // a chunk of the rest, slots for both. No room ends it: nobody overtakes. num_computed and
  // num_cached begin with what was found.
  KV_TODO("Scheduler::schedule_waiting");
}

ScheduledRequest& Scheduler::choose_victim() const {
  return **std::ranges::max_element(running_,
                                    [&](const auto* a, const auto* b) { return before(a, b); });
}

void Scheduler::preempt(ScheduledRequest& request) {
  // Its blocks are free, it leaves running_, has nothing computed, is counted, and waits.
  KV_TODO("Scheduler::preempt");
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
