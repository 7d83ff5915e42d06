#include "progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace lesson08 {
namespace {

/// One of eight heights, or a space for nothing at all.
const char* column(double value, double largest) {
  static constexpr const char* kHeights[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (value <= 0 || largest <= 0) return kHeights[0];
  return kHeights[1 + static_cast<int>(std::min(value / largest, 1.0) * 7 + 0.5)];
}

}  // namespace

ServeProgress::ServeProgress(bool live) : live_(live), last_(std::chrono::steady_clock::now()) {}

ServeProgress::~ServeProgress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void ServeProgress::pass(const Scheduler& scheduler) {
  const lesson06::CachePool& pool = scheduler.manager().pool();
  Moment moment;
  moment.pool = static_cast<double>(pool.num_used()) / static_cast<double>(pool.num_blocks());
  moment.running = static_cast<int>(scheduler.running().size());
  moment.waiting = static_cast<int>(scheduler.waiting().size());
  moment.preempted = static_cast<int>(scheduler.num_preemptions() - num_preempted_);
  num_preempted_ = scheduler.num_preemptions();
  max_running_ = std::max(max_running_, moment.running);
  max_waiting_ = std::max(max_waiting_, moment.waiting);
  moments_.push_back(moment);

  const auto now = std::chrono::steady_clock::now();
  if (!live_ || now - last_ < std::chrono::milliseconds(200)) return;
  last_ = now;
  show_line(pool);
}

void ServeProgress::show_line(const lesson06::CachePool& pool) {
  const Moment& now = moments_.back();
  std::string bar;
  for (int i = 0; i < 20; ++i) bar += now.pool * 20 > i ? "█" : "·";
  fmt::print(stderr, "\r\033[Kpass {}  {} {}/{} blocks, {} run, {} wait, {} preempted",
             moments_.size(), bar, pool.num_used(), pool.num_blocks(), now.running, now.waiting,
             num_preempted_);
  std::fflush(stderr);
  shown_ = true;
}

std::string ServeProgress::to_string(size_t width) const {
  std::string pool, running, waiting, preempted;
  const size_t n = moments_.size();
  constexpr size_t kBeside = 26;  // names, and "  at most 1,000"
  const size_t columns = std::min({size_t{72}, width > kBeside ? width - kBeside : 1, n});
  for (size_t c = 0; c < columns; ++c) {
    Moment most;  // of the passes that this column stands for
    for (size_t i = c * n / columns; i < (c + 1) * n / columns; ++i) {
      most.pool = std::max(most.pool, moments_[i].pool);
      most.running = std::max(most.running, moments_[i].running);
      most.waiting = std::max(most.waiting, moments_[i].waiting);
      most.preempted += moments_[i].preempted;
    }
    pool += column(most.pool, 1);
    running += column(most.running, max_running_);
    waiting += column(most.waiting, max_waiting_);
    preempted += most.preempted == 0  ? "·"
                 : most.preempted > 9 ? "+"
                                      : std::to_string(most.preempted);
  }
  return fmt::format(
      "pool in use  {}\nrunning      {}  at most {}\nwaiting      {}  at most {}\n"
      "preempted    {}\n",
      pool, running, max_running_, waiting, max_waiting_, preempted);
}

}  // namespace lesson08
