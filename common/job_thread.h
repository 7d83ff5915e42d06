#pragma once

// Jobs on a thread of their own: the caller never waits for them.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

namespace kv {

enum class RunJobs {
  kThread,
  kAtOnce,  // start() does the jobs: for platforms without threads, and for tests
};

/// Does jobs one after the other. Jobs only move from list to list, so none of the functions below
/// can fail. What `work` throws ends its job alone.
template <class Job>
class JobThread {
 public:
  JobThread(RunJobs run, std::function<void(Job&)> work) : work_(std::move(work)) {
    if (run == RunJobs::kThread) thread_ = std::thread([this] { this->run(); });
  }
  /// Waits for the job in flight, and forgets all others.
  ~JobThread() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    added_.notify_one();
    thread_.join();
  }
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;

  void start(std::list<Job> jobs) noexcept { start(jobs, jobs_); }
  /// Urgent jobs come before all that are not.
  void start_urgent(std::list<Job> jobs) noexcept { start(jobs, urgent_); }
  /// Hands back the first job that is done, or none.
  std::list<Job> take_done() noexcept {
    const std::lock_guard lock(mutex_);
    std::list<Job> first;
    if (!done_.empty()) first.splice(first.end(), done_, done_.begin());
    return first;
  }
  /// Returns whether no job waits, runs, or has a result to be taken back.
  bool idle() noexcept {
    const std::lock_guard lock(mutex_);
    return !has_work() && done_.empty();
  }
  /// Returns when a job is done, after `longest`, or at once if there is none.
  void wait(std::chrono::milliseconds longest) {
    std::unique_lock lock(mutex_);
    was_done_.wait_for(lock, longest, [&] { return !has_work() || !done_.empty(); });
  }

 private:
  bool has_work() const { return !in_flight_.empty() || !urgent_.empty() || !jobs_.empty(); }
  void start(std::list<Job>& jobs, std::list<Job>& to) noexcept {
    std::unique_lock lock(mutex_);
    to.splice(to.end(), jobs);
    while (!thread_.joinable() && has_work()) do_next(lock);
    added_.notify_one();
  }
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      added_.wait(lock, [&] { return stop_ || has_work(); });
      if (stop_) return;
      do_next(lock);
    }
  }
  void do_next(std::unique_lock<std::mutex>& lock) noexcept {
    std::list<Job>& from = urgent_.empty() ? jobs_ : urgent_;
    in_flight_.splice(in_flight_.end(), from, from.begin());
    lock.unlock();
    try {
      work_(in_flight_.front());
    } catch (...) {
    }
    lock.lock();
    done_.splice(done_.end(), in_flight_);
    was_done_.notify_all();
  }

  const std::function<void(Job&)> work_;
  std::mutex mutex_;  // guards the next five
  std::list<Job> urgent_, jobs_;
  std::list<Job> in_flight_;  // one at most, which the thread may change
  std::list<Job> done_;
  bool stop_ = false;
  std::condition_variable added_, was_done_;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace kv
