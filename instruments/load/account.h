#pragma once

// The results of a run of requests: times, tokens, errors, and whether equal requests got equal
// answers.

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "instruments/load/answer.h"

namespace load {

/// How many pairs of equal requests got equal answers.
struct Comparison {
  int64_t compared = 0, equal = 0;
  std::string first_difference;  // for people; empty if there is none
};

/// Outcomes with the bodies that were sent, by request. A failed request is compared with none.
Comparison compare_equal(const std::vector<Outcome>& outcomes,
                         const std::vector<std::string>& bodies);
/// The same requests once in company and once alone.
Comparison compare_runs(const std::vector<Outcome>& company, const std::vector<Outcome>& alone);

/// The XXH64 of the whole answers' XXH64s, in the order of the requests: equal for two runs of one
/// workload whose answers are equal.
uint64_t digest_of(const std::vector<Outcome>& outcomes);

struct Account {
  explicit Account(std::vector<Outcome> outcomes, double seconds);

  /// The smallest value that `share` of the sorted values do not exceed; 0 if there are none.
  static double quantile(const std::vector<double>& sorted, double share);
  std::string table() const;
  /// Each kind of error, how often, and one message of it; a line for each.
  std::string errors() const;
  nlohmann::json json() const;

  double seconds = 0;  // of the whole run
  int64_t num_requests = 0, num_whole = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
  bool tells_cached = false;  // the server counts the tokens that it found in its cache
  std::vector<double> first_token, between_tokens, end_to_end;  // seconds, sorted
  std::map<std::string, std::pair<int64_t, std::string>> error_kinds;
};

}  // namespace load
