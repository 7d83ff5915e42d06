#pragma once

// A server, watched: it stands still before each pass.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine.h"
#include "viz/live.h"

namespace lesson08 {

/// The page's own pool and scheduler, and those of a live run.
struct PageSettings {
  int num_blocks = 32;
  int block_size = 4;
  int budget = 16;
  Order order = Order::kFirstCome;
  bool no_gate = false;

  SchedulerOptions scheduler() const {
    return {.max_tokens_per_pass = budget, .full_sequence_must_fit = !no_gate, .order = order};
  }
};

/// This lesson's engine, or a later one that serves in another way.
template <class Engine>
class LiveServer : public viz::Live {
 public:
  using Live::Live;
  using Scheduler = typename Engine::Scheduler;

  /// The engine's own, after it has composed a pass. Null: the run has ended.
  const Scheduler* scheduler() const { return finished() ? nullptr : scheduler_; }
  const SchedulerOutput& output() const { return *output_; }
  /// [requests] generated so far.
  const std::vector<std::vector<int32_t>>& answers() const { return answers_; }

 protected:
  /// Throws UserError for what the engine refuses.
  void serve(std::unique_ptr<Engine> engine, std::vector<kv::Request> requests,
             std::vector<Arrival> arrivals) {
    arrivals_ = std::move(arrivals);
    answers_.assign(requests.size(), {});
    Engine& serving = *engine;
    start(std::move(engine), std::move(requests),
          [this, &serving](const kv::TokenCallback& stand_still) {
            serving.serve(
                this->requests(), arrivals_,
                [this](size_t request, int32_t token) {
                  answers_[request].push_back(token);
                  return true;
                },
                [this, &stand_still](const Scheduler& of, const SchedulerOutput& pass) {
                  scheduler_ = &of;
                  output_ = &pass;
                  return stand_still(0, 0);  // a pass, and no token
                });
          });
  }

 private:
  const Scheduler* scheduler_ = nullptr;  // while the engine serves
  const SchedulerOutput* output_ = nullptr;
  std::vector<Arrival> arrivals_;
  std::vector<std::vector<int32_t>> answers_;
};

class LiveServing : public LiveServer<ServingEngine> {
 public:
  using LiveServer::LiveServer;
  static constexpr int kRequests = 4, kPassesBetween = 3;

  /// Requests that begin with the prompt and come one after the other, each with a seed of its own.
  /// Throws UserError for what the engine refuses.
  void serve(const PageSettings& settings, const std::string& prompt, int max_tokens);

  const ServingEngine& serving() const { return engine<ServingEngine>(); }
};

}  // namespace lesson08
