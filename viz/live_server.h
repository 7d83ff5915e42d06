#pragma once

// A server, watched: it stands still before each pass.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "viz/live.h"

namespace viz {

/// An Engine has serve(requests, arrivals, on_token, on_pass) and a Scheduler, whose schedule()
/// gives an Output.
template <class Engine, class Arrival, class Output>
class LiveServer : public Live {
 public:
  using Live::Live;
  using Scheduler = typename Engine::Scheduler;

  /// The engine's scheduler, after it has composed a pass. Null if the run has ended.
  const Scheduler* scheduler() const { return finished() ? nullptr : scheduler_; }
  const Output& output() const { return *output_; }
  const auto& server() const { return *this->template engine<Engine>().server(); }
  /// [requests] generated so far.
  const std::vector<std::vector<int32_t>>& answers() const { return answers_; }
  /// Prompt and generated tokens.
  std::vector<int32_t> tokens(size_t request) const {
    std::vector<int32_t> tokens = requests().at(request).prompt;
    tokens.insert(tokens.end(), answers_[request].begin(), answers_[request].end());
    return tokens;
  }

 protected:
  /// Throws UserError for what the engine refuses.
  void serve(std::unique_ptr<Engine> engine, std::vector<kv::Request> requests,
             std::vector<Arrival> arrivals) {
    stop();  // which may compose one more pass
    scheduler_ = nullptr;
    arrivals_ = std::move(arrivals);
    answers_.assign(requests.size(), {});
    Engine& serving = *engine;
    start(std::move(engine), std::move(requests),
          [this, &serving](const kv::TokenCallback& on_token) {
            on_token_ = &on_token;
            serving.serve(
                this->requests(), arrivals_,
                [this](size_t request, int32_t token) {
                  answers_[request].push_back(token);
                  return true;
                },
                [this](const Scheduler& of, const Output& pass) {
                  scheduler_ = &of;
                  output_ = &pass;
                  return stand_still();
                });
          });
  }
  /// The engine stands still until the next step. Returns false if the run is cancelled.
  bool stand_still() { return (*on_token_)(0, 0); }  // a moment, and no token

 private:
  const kv::TokenCallback* on_token_ = nullptr;  // while the engine serves, as all of these
  const Scheduler* scheduler_ = nullptr;         // null before the first pass
  const Output* output_ = nullptr;
  std::vector<Arrival> arrivals_;
  std::vector<std::vector<int32_t>> answers_;
};

}  // namespace viz
