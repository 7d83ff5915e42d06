// How a pass is composed.

#include "scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "common/error.h"
#include "common/table.h"

namespace lesson08 {

Scheduler::Scheduler(std::unique_ptr<KvManager> manager, const SchedulerOptions& options)
    : manager_(std::move(manager)), options_(options) {
  lesson08::check(options);
  const size_t max_running = options.max_running;
  output_.chunks.reserve(max_running);
  for (auto* ids : {&output_.started, &output_.resumed, &output_.preempted, &preempted_}) {
    ids->reserve(max_running);
  }
}

void Scheduler::submit(int64_t id, std::span<const int32_t> prompt, int max_tokens,
                       RequestOptions options) {
  if (requests_.contains(id)) kv::user_error("there is a request {} already", id);
  if (prompt.empty()) kv::user_error("request {} has an empty prompt", id);
  if (max_tokens < 1)
    kv::user_error("request {} wants {} tokens, at least 1 is possible", id, max_tokens);
  check_fits(id, prompt.size(), max_tokens);
  Queue queue(1);
  ScheduledRequest& request = queue.front();
  request.id = id;
  request.arrival = num_submitted_;
  request.options = std::move(options);
  request.tokens.reserve(prompt.size() + max_tokens);
  request.tokens.assign(prompt.begin(), prompt.end());
  request.num_prompt = static_cast<int>(prompt.size());
  request.max_tokens = max_tokens;
  request.hashes = BlockHashes(std::exchange(request.options.extra_keys, {}));
  request.hashes.reserve(request.tokens.capacity() / manager_->pool().block_size());
  requests_.emplace(id, queue.begin());
  // From here on nothing allocates for this request, and nothing can fail.
  ++num_submitted_;
  wait(queue, queue.begin());
}

/// Returns whether a is more important than b.
bool Scheduler::before(const ScheduledRequest& a, const ScheduledRequest& b) const {
  if (options_.order == Order::kPriority && a.options.priority != b.options.priority) {
    return a.options.priority < b.options.priority;
  }
  return a.arrival < b.arrival;
}

void Scheduler::wait(Queue& from, Queue::iterator request) {
  auto place = waiting_.end();
  while (place != waiting_.begin() && before(*request, *std::prev(place))) --place;
  waiting_.splice(place, from, request);
}

int Scheduler::chunk_of(const ScheduledRequest& request, int num_computed, int budget) const {
  if (request.wants_token) return 0;
  int tokens = static_cast<int>(request.tokens.size()) - num_computed;
  if (options_.max_chunk > 0) tokens = std::min(tokens, options_.max_chunk);
  return tokens > budget && !options_.chunked_prefill ? 0 : std::min(tokens, budget);
}

const SchedulerOutput& Scheduler::schedule() {
  output_.chunks.clear();
  for (auto* ids : {&output_.started, &output_.resumed, &output_.preempted}) ids->clear();
  int budget = options_.max_tokens_per_pass;
  if (running_.empty() || schedule_running(budget)) schedule_waiting(budget);
  output_.preempted.swap(preempted_);
  return output_;
}

void Scheduler::add_chunk(const ScheduledRequest& request, int num_tokens, int& budget) {
  output_.chunks.push_back({.id = request.id, .num_tokens = num_tokens});
  budget -= num_tokens;
}

/// Removes the request's chunk, if there is one, from the pass and gives its tokens back to the
/// budget.
void Scheduler::take_chunk_back(const ScheduledRequest& request, int& budget) {
  const auto chunk = std::ranges::find(output_.chunks, request.id, &Chunk::id);
  if (chunk == output_.chunks.end()) return;
  budget += chunk->num_tokens;
  output_.chunks.erase(chunk);
}

/// Returns false if a request was preempted.
bool Scheduler::schedule_running(int& budget) {
  for (auto request = running_.begin(); request != running_.end() && budget > 0; ++request) {
    const int tokens = chunk_of(*request, request->num_computed, budget);
    if (tokens == 0) continue;
    while (!manager_->allocate_slots(request->id, tokens)) {
      const auto victim = std::ranges::max_element(
          running_, [&](const auto& a, const auto& b) { return before(a, b); });
      const bool itself = victim == request;
      take_chunk_back(*victim, budget);
      preempt(victim);
      if (itself) return false;
    }
    add_chunk(*request, tokens, budget);
  }
  return preempted_.empty();
}

void Scheduler::schedule_waiting(int& budget) {
  while (!waiting_.empty() && budget > 0 && std::ssize(running_) < options_.max_running) {
    ScheduledRequest& request = waiting_.front();
    ComputedBlocks computed;
    if (!request.options.skip_reading_prefix_cache) {
      computed = manager_->get_computed_blocks(request.tokens, request.hashes);
    }
    if (request.num_preemptions > 0) computed.num_queried = 0;  // not part of the hit rate
    const int tokens = chunk_of(request, computed.num_tokens, budget);
    const int rest = static_cast<int>(request.tokens.size()) - computed.num_tokens;
    const int must_fit = options_.full_sequence_must_fit ? rest : tokens;
    if (manager_->num_blocks_to_allocate(computed, must_fit) > manager_->pool().num_free()) return;
    if (tokens == 0 || !manager_->allocate_slots(request.id, tokens, computed)) return;
    start(waiting_.begin(), computed.num_tokens);
    add_chunk(request, tokens, budget);
  }
}

void Scheduler::start(Queue::iterator request, int num_computed) {
  running_.splice(running_.end(), waiting_, request);
  request->num_computed = request->num_cached = num_computed;
  (request->num_preemptions > 0 ? output_.resumed : output_.started).push_back(request->id);
}

void Scheduler::preempt(Queue::iterator request) {
  manager_->free(request->id);
  request->num_computed = 0;  // recomputation: what the cache still has is found again
  ++request->num_preemptions;
  ++num_preemptions_;
  preempted_.push_back(request->id);
  wait(running_, request);
}

bool Scheduler::reset_prefix_cache(bool preempt_running) {
  if (!preempt_running && !running_.empty()) return false;
  while (!running_.empty()) preempt(std::prev(running_.end()));
  return manager_->reset_prefix_cache();
}

void Scheduler::update(std::span<const Chunk> chunks) {
  const int size = manager_->pool().block_size();
  for (const Chunk& chunk : chunks) {
    const auto found = requests_.find(chunk.id);
    // It was finished while the pass ran, and perhaps submitted again.
    if (found == requests_.end() || !manager_->holds(chunk.id)) continue;
    ScheduledRequest& request = *found->second;
    const int computed = request.num_computed + chunk.num_tokens;
    if (computed / size > request.num_computed / size) {  // one more block is full
      manager_->cache_blocks(chunk.id, request.tokens, request.hashes, computed);
    }
    request.num_computed = computed;
    request.wants_token = computed == std::ssize(request.tokens);
  }
}

void Scheduler::add_token(int64_t id, int32_t token) {
  const auto found = requests_.find(id);
  if (found == requests_.end() || !std::exchange(found->second->wants_token, false)) {
    throw std::logic_error(
        fmt::format("Scheduler: request {} is given a token it has no logits for", id));
  }
  found->second->tokens.push_back(token);
}

bool Scheduler::finish(int64_t id) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return false;
  const bool runs = manager_->holds(id);
  if (runs) manager_->free(id);
  std::erase(preempted_, id);
  (runs ? running_ : waiting_).erase(found->second);
  requests_.erase(found);
  return true;
}

void Scheduler::check_fits(int64_t id, size_t num_prompt, int max_tokens) const {
  // The last generated token is never run: it needs no slot.
  const int64_t slots = static_cast<int64_t>(num_prompt) + max_tokens - 1;
  const int64_t needed = manager_->max_blocks(slots);
  if (needed > manager_->pool().num_blocks()) {
    kv::user_error(
        "request {} needs {}, the pool has {}; generate fewer tokens or give the pool more blocks",
        id, kv::count_of(needed, "block"), manager_->pool().num_blocks());
  }
  if (!options_.chunked_prefill && slots > options_.max_tokens_per_pass) {
    kv::user_error("request {} may run {} in one pass, the budget is {}; allow chunks", id,
                   kv::count_of(slots, "token"), options_.max_tokens_per_pass);
  }
}

const ScheduledRequest& Scheduler::request(int64_t id) const {
  const auto found = requests_.find(id);
  if (found == requests_.end()) {
    throw std::out_of_range(fmt::format("Scheduler: there is no request {}", id));
  }
  return *found->second;
}

void Scheduler::check() const {
  manager_->check();
  if (requests_.size() != waiting_.size() + running_.size()) {
    throw std::logic_error(fmt::format("{} requests, {} waiting and {} running", requests_.size(),
                                       waiting_.size(), running_.size()));
  }
  for (auto r = waiting_.begin(); r != waiting_.end(); ++r) {
    if (manager_->holds(r->id) || &request(r->id) != &*r) {
      throw std::logic_error(fmt::format("request {} waits and holds blocks, or runs", r->id));
    }
    if (r != waiting_.begin() && before(*r, *std::prev(r))) {
      throw std::logic_error("the waiting queue is out of order");
    }
  }
  for (const ScheduledRequest& r : running_) {
    if (!manager_->holds(r.id) || &request(r.id) != &r) {
      throw std::logic_error(fmt::format("request {} runs without blocks, or waits", r.id));
    }
    if (r.num_computed > manager_->table(r.id).num_tokens()) {
      throw std::logic_error(fmt::format("request {} has computed more than it has slots", r.id));
    }
  }
}

}  // namespace lesson08
