#pragma once

// Sends a workload: a number of requests at a time, or at times of their own.

#include <optional>
#include <string>
#include <vector>

#include "instruments/load/client.h"
#include "instruments/load/workload.h"

namespace load {

struct Pace {
  int concurrency = 16;        // most requests at once; 0 sets no limit
  std::optional<double> rate;  // requests a second, at random moments (a Poisson process)
  uint64_t seed = 0;           // of these moments
};

struct RunResult {
  std::vector<Outcome> outcomes;    // in the order in which they ended
  std::vector<std::string> bodies;  // by request; empty where none was sent
  double seconds = 0;
  size_t num_planned = 0;
};

/// Sends all requests. After Ctrl-C it sends no more and returns what has ended.
RunResult run(Client& client, const std::vector<Ask>& asks, const std::string& model,
              const Pace& pace);

/// Sends these bodies again, one at a time: those of the requests that were answered.
RunResult run_alone(Client& client, const std::vector<Ask>& asks, const RunResult& before);

}  // namespace load
