#include "instruments/serve/engine_thread.h"

#include <exception>
#include <utility>

#include "common/error.h"

namespace serve {

EngineThread::EngineThread(Engine& engine, watch::EventLog& log, std::function<void()> on_report,
                           watch::Publisher* publisher)
    : engine_(engine), log_(log), on_report_(std::move(on_report)), publisher_(publisher) {
  thread_ = std::thread([this] { run(); });
}

EngineThread::~EngineThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  news_.notify_one();
  thread_.join();
}

void EngineThread::order(Command command) {
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back(std::move(command));
  }
  news_.notify_one();
}

std::vector<PassReport> EngineThread::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(reports_, {});
}

/// Waits until there is something to do. Returns false at the end.
bool EngineThread::wait(std::vector<Command>& commands) {
  std::unique_lock lock(mutex_);
  const auto work = [&] { return stop_ || !commands_.empty() || (!dead_ && !engine_.idle()); };
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

void EngineThread::run() {
  std::vector<Command> commands;
  while (wait(commands)) {
    PassReport report;
    report.began = Clock::now();
    try {
      if (!dead_) obey(commands, report);
      if (!dead_) pass(report);
    } catch (const std::exception& error) {  // of the device, or of the model's weights
      report.failure = error.what();
      dead_ = true;
    }
    commands.clear();
    report.ended = Clock::now();
    hand_over(std::move(report));
  }
}

void EngineThread::pass(PassReport& report) {
  if (!engine_.idle()) report.pass = engine_.step();
  submit_followers(report.pass.step, report);
  report.pass.state = engine_.state();
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  report.cache_events = log_.take(now.count());
  if (publisher_ == nullptr) return;
  if (report.cache_events) publisher_->send(*report.cache_events);
  publisher_->answer_replays();
}

void EngineThread::obey(std::vector<Command>& commands, PassReport& report) {
  for (Command& command : commands) {
    if (const auto* id = std::get_if<int64_t>(&command)) {
      followers_.erase(*id);
      for (auto& [first, waiting] : followers_) {
        std::erase_if(waiting, [&](const Submission& one) { return one.id == *id; });
      }
      engine_.abort(*id);
      continue;
    }
    auto& samples = std::get<std::vector<Submission>>(command);
    submit_now(samples.front(), report);
    if (samples.size() == 1) continue;
    auto& waiting = followers_[samples.front().id];
    waiting.assign(std::make_move_iterator(samples.begin() + 1),
                   std::make_move_iterator(samples.end()));
  }
}

void EngineThread::submit_now(const Submission& submission, PassReport& report) {
  try {
    engine_.submit(submission.id, submission.request, submission.options);
  } catch (const kv::UserError& error) {
    report.refused.push_back({submission.id, error.what()});
  }
}

void EngineThread::submit_followers(const kv::StepOutput& step, PassReport& report) {
  if (followers_.empty()) return;
  for (const kv::NewToken& token : step.tokens) {
    const auto found = followers_.find(token.id);
    if (found == followers_.end()) continue;
    for (const Submission& one : found->second) submit_now(one, report);
    followers_.erase(found);
  }
}

void EngineThread::hand_over(PassReport report) {
  {
    const std::lock_guard lock(mutex_);
    reports_.push_back(std::move(report));
  }
  on_report_();
}

}  // namespace serve
