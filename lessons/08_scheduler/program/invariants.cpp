// What must hold at every moment, spelled out: for tests, and for the page, which checks it after
// each command.

#include <fmt/format.h>

#include <iterator>
#include <stdexcept>

#include "lessons/08_scheduler/scheduler.h"

namespace lesson08 {

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
