#include "viz/live.h"

#include <exception>
#include <utility>

namespace viz {

LiveRun::LiveRun(std::function<void(const kv::TokenCallback&)> generate)
    : thread_([this, generate = std::move(generate)] {
        {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, [this] { return turn_ == Turn::kEngine; });
        }
        std::string error;
        try {
          if (!cancelled_) generate([this](size_t r, int32_t id) { return on_token(r, id); });
        } catch (const std::exception& e) {
          error = e.what();
        }
        const std::lock_guard lock(mutex_);
        error_ = std::move(error);
        finished_ = true;
        turn_ = Turn::kPage;
        changed_.notify_all();
      }) {}

LiveRun::~LiveRun() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    turn_ = Turn::kEngine;
    changed_.notify_all();
  }
  thread_.join();
}

bool LiveRun::step() {
  std::unique_lock lock(mutex_);
  if (finished_) return false;
  turn_ = Turn::kEngine;
  changed_.notify_all();
  changed_.wait(lock, [this] { return turn_ == Turn::kPage; });
  return true;
}

bool LiveRun::finished() const {
  const std::lock_guard lock(mutex_);
  return finished_;
}

std::string LiveRun::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

bool LiveRun::on_token(size_t request, int32_t token) {
  std::unique_lock lock(mutex_);
  if (cancelled_) return false;
  tokens_.push_back({.request = request, .id = token});
  turn_ = Turn::kPage;
  changed_.notify_all();
  changed_.wait(lock, [this] { return turn_ == Turn::kEngine; });
  return !cancelled_;
}

}  // namespace viz
