#include "instruments/serve/pass_thread.h"

#include <exception>
#include <utility>

#include "common/error.h"

namespace serve {

PassThread::PassThread(LessonServer& server, watch::EventLog& log, Reporter on_report,
                       watch::Publisher* publisher)
    : server_(server), log_(log), on_report_(std::move(on_report)), publisher_(publisher) {
  thread_ = std::thread([this] { run(); });
}

PassThread::~PassThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  news_.notify_one();
  thread_.join();
}

void PassThread::order(Command command) {
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back(std::move(command));
  }
  news_.notify_one();
}

void PassThread::submit(std::vector<Submission> samples) {
  order([this, samples = std::move(samples)](PassReport& report) {
    submit_now(samples.front(), report);
    if (samples.size() == 1) return;
    followers_[samples.front().id].assign(samples.begin() + 1, samples.end());
  });
}

void PassThread::abort(int64_t id) {
  order([this, id](PassReport&) {
    followers_.erase(id);
    server_.abort(id);
  });
}

/// Waits until there is something to do. Returns false at the end.
bool PassThread::wait(std::vector<Command>& commands) {
  std::unique_lock lock(mutex_);
  const auto work = [&] { return stop_ || !commands_.empty() || (!dead_ && !server_.idle()); };
  while (!work()) {
    if (publisher_ == nullptr) {
      news_.wait(lock, work);
    } else if (!news_.wait_for(lock, std::chrono::milliseconds(50), work)) {
      publisher_->answer_replays();
    }
  }
  commands.swap(commands_);
  return !stop_;
}

void PassThread::run() {
  std::vector<Command> commands;
  while (wait(commands)) {
    PassReport report{.began = Clock::now()};
    try {
      for (const Command& command : std::exchange(commands, {})) {
        if (!dead_) command(report);
      }
      if (!dead_) pass(report);
    } catch (const std::exception& error) {  // of the device, or of the model's weights
      report.failure = error.what();
      dead_ = true;
    }
    report.ended = Clock::now();
    on_report_(std::move(report));
  }
}

void PassThread::pass(PassReport& report) {
  if (!server_.idle()) report.pass = server_.step();
  for (const kv::NewToken& token : report.pass.step.tokens) {
    const auto followers = followers_.extract(token.id);
    if (!followers) continue;
    for (const Submission& one : followers.mapped()) submit_now(one, report);
  }
  report.pass.state = server_.state();
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  report.cache_events = log_.take(now.count());
  if (publisher_ == nullptr) return;
  if (report.cache_events) publisher_->send(*report.cache_events);
  publisher_->answer_replays();
}

void PassThread::submit_now(const Submission& submission, PassReport& report) {
  try {
    server_.submit(submission.id, submission.request, submission.options);
  } catch (const kv::UserError& error) {
    report.refused.push_back({submission.id, error.what()});
  }
}

}  // namespace serve
