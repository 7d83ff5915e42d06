// What is refused when it comes; a look at requests and queues; and what must hold at every moment,
// spelled out: for tests, and for the page, which checks it after each command.

#include <fmt/format.h>

#include <iterator>
#include <stdexcept>

#include "common/base/error.h"
#include "common/base/table.h"
#include "lessons/08_scheduler/scheduler.h"

namespace lesson08 {

void check(const SchedulerOptions& options) {
  if (options.max_tokens_per_pass < 1 || options.max_running < 1 || options.max_chunk < 0) {
    kv::user_error("token budget {}, running requests {}, chunk {}: wanted at least 1, 1, and 0",
                   options.max_tokens_per_pass, options.max_running, options.max_chunk);
  }
  if (!options.chunked_prefill && options.max_chunk > 0) {
    kv::user_error("chunks of {}, and no chunked prefill: wanted one or the other",
                   kv::count_of(options.max_chunk, "token"));
  }
}

void Scheduler::check_fits(int64_t id, size_t num_prompt, int max_tokens) const {
  // The last generated token is never run: it needs no slot.
  const int64_t slots = static_cast<int64_t>(num_prompt) + max_tokens - 1;
  const int64_t needed = manager_->most_blocks(slots);
  if (needed > manager_->pool().num_blocks()) {
    kv::user_error(
        "request {} needs {}, the pool has {}; generate fewer tokens or give the "
        "pool more blocks",
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

std::vector<int64_t> Scheduler::ids_of(const Queue& queue) {
  std::vector<int64_t> ids;
  for (const ScheduledRequest& request : queue) ids.push_back(request.id);
  return ids;
}

void Scheduler::check() const {
  manager_->check();
  if (requests_.size() != waiting_.size() + running_.size()) {
    throw std::logic_error(fmt::format("{} requests, {} waiting and {} running", requests_.size(),
                                       waiting_.size(), running_.size()));
  }
  for (const ScheduledRequest& r : waiting_) {
    if (r.state != RequestState::kWaiting || manager_->holds(r.id) || &request(r.id) != &r) {
      throw std::logic_error(fmt::format("request {} waits and holds blocks, or runs", r.id));
    }
  }
  for (const ScheduledRequest& r : running_) {
    if (r.state != RequestState::kRunning || !manager_->holds(r.id) || &request(r.id) != &r) {
      throw std::logic_error(fmt::format("request {} runs without blocks, or waits", r.id));
    }
    if (r.num_computed > manager_->table(r.id).num_tokens()) {
      throw std::logic_error(fmt::format("request {} has computed more than it has slots", r.id));
    }
  }
  for (auto r = waiting_.begin(); r != waiting_.end() && std::next(r) != waiting_.end(); ++r) {
    if (before(*std::next(r), *r)) throw std::logic_error("the waiting queue is out of order");
  }
}

}  // namespace lesson08
