#pragma once

// A page that watches a real engine: generate() runs on a thread of its own and stops after every
// token until it is let on, so that between steps the page reads the engine's own structures.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/engine.h"

namespace viz {

class LiveRun {
 public:
  struct Token {
    size_t request = 0;
    int32_t id = 0;
  };
  /// Calls generate(callback) on its own thread; nothing is generated before the first step.
  explicit LiveRun(std::function<void(const kv::TokenCallback&)> generate);
  /// Cancels what is running and waits for it.
  ~LiveRun();
  LiveRun(const LiveRun&) = delete;
  LiveRun& operator=(const LiveRun&) = delete;

  /// Lets one more token out and waits until the engine stands still again: at the next token or at
  /// its end. False if it had ended. While it stands still the engine may be read.
  bool step();
  bool finished() const;
  std::string error() const;  // of generate(), empty if none
  const std::vector<Token>& tokens() const { return tokens_; }

 private:
  enum class Turn { kPage, kEngine };
  bool on_token(size_t request, int32_t token);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Turn turn_ = Turn::kPage;
  bool finished_ = false;
  bool cancelled_ = false;
  std::string error_;
  std::vector<Token> tokens_;
  std::thread thread_;
};

}  // namespace viz
