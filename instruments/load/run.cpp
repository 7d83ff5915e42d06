#include "instruments/load/run.h"

#include <cmath>
#include <random>
#include <set>

#include "common/console.h"
#include "programs/run_main.h"

namespace load {
namespace {

/// When each request is to be sent at the earliest, in seconds after the start.
std::vector<double> moments_of(const std::vector<Ask>& asks, const Pace& pace) {
  std::vector<double> moments(asks.size(), 0);
  std::mt19937_64 rng(pace.seed);
  double now = 0;
  for (size_t i = 0; i < asks.size(); ++i) {
    if (!pace.rate) {
      moments[i] = asks[i].timestamp.value_or(0);
      continue;
    }
    moments[i] = now;
    const double uniform = (static_cast<double>(rng() >> 11) + 0.5) * 0x1p-53;
    now -= std::log(uniform) / *pace.rate;
  }
  return moments;
}

class Runner {
 public:
  Runner(Client& client, const std::vector<Ask>& asks, const std::string& model, const Pace& pace)
      : client_(client),
        asks_(asks),
        model_(model),
        pace_(pace),
        moments_(moments_of(asks, pace)),
        answers_(asks.size()),
        messages_(asks.size()),
        followers_(asks.size()),
        progress_("sending", "requests") {
    result_.bodies.resize(asks.size());
    result_.num_planned = asks.size();
    for (size_t i = 0; i < asks.size(); ++i) {
      if (asks[i].follows) {
        followers_[*asks[i].follows].push_back(i);
      } else {
        ready_.insert(i);
      }
    }
  }

  RunResult run() {
    while ((!ready_.empty() || client_.num_open() > 0) && !kv::interrupted()) {
      const double until_next = send_what_is_due();
      for (Outcome& outcome : client_.wait(std::min(0.1, until_next))) end(std::move(outcome));
      progress_.show(std::ssize(result_.outcomes), std::ssize(asks_));
    }
    result_.seconds = since_start();
    return std::move(result_);
  }

 private:
  double since_start() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }

  /// Returns the seconds until the next request is due.
  double send_what_is_due() {
    while (!ready_.empty()) {
      if (pace_.concurrency > 0 && client_.num_open() >= static_cast<size_t>(pace_.concurrency))
        break;
      const size_t index = *ready_.begin();
      if (const double wait = moments_[index] - since_start(); wait > 0) return wait;
      ready_.erase(index);
      result_.bodies[index] = body_of(asks_, index, model_, answers_, messages_);
      client_.send(index, asks_[index].chat ? "/v1/chat/completions" : "/v1/completions",
                   result_.bodies[index]);
    }
    return 1;
  }

  void end(Outcome&& outcome) {
    const size_t index = outcome.request;
    const bool whole = outcome.error.empty();
    answers_[index] = outcome.text;
    result_.outcomes.push_back(std::move(outcome));
    for (const size_t next : followers_[index]) {
      if (whole) {
        ready_.insert(next);
      } else {
        end({.request = next,
             .text = {},
             .answer = {},
             .error = "not sent",
             .error_message = "the turn before it had failed",
             .gaps = {}});
      }
    }
  }

  Client& client_;
  const std::vector<Ask>& asks_;
  std::string model_;
  Pace pace_;
  std::vector<double> moments_;
  std::vector<std::string> answers_;
  std::vector<nlohmann::ordered_json> messages_;
  std::vector<std::vector<size_t>> followers_;
  std::set<size_t> ready_;  // may be sent when their moment comes
  kv::ProgressLine progress_;
  Clock::time_point start_ = Clock::now();
  RunResult result_;
};

}  // namespace

RunResult run(Client& client, const std::vector<Ask>& asks, const std::string& model,
              const Pace& pace) {
  return Runner(client, asks, model, pace).run();
}

RunResult run_alone(Client& client, const std::vector<Ask>& asks, const RunResult& before) {
  RunResult result;
  result.bodies = before.bodies;
  result.num_planned = before.outcomes.size();
  kv::ProgressLine progress("sending again, one at a time", "requests");
  const Clock::time_point start = Clock::now();
  for (const Outcome& outcome : before.outcomes) {
    if (kv::interrupted()) break;
    if (!outcome.error.empty()) continue;
    client.send(outcome.request,
                asks[outcome.request].chat ? "/v1/chat/completions" : "/v1/completions",
                before.bodies[outcome.request]);
    while (client.num_open() > 0 && !kv::interrupted()) {
      for (Outcome& its : client.wait(0.1)) result.outcomes.push_back(std::move(its));
    }
    progress.show(std::ssize(result.outcomes), std::ssize(before.outcomes));
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

}  // namespace load
