#pragma once

// A trace on simulated servers: what each policy would find in their caches, and how long a request
// would wait for its first token.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "instruments/replay/trace/trace_file.h"
#include "instruments/route/policy.h"

namespace route {

struct TraceRequest {
  double seconds = 0;  // when it comes
  int64_t input_tokens = 0, output_tokens = 0;
  std::vector<uint64_t> blocks = {};  // the prompt's full ones
};
struct Trace {
  std::string name;
  int block_size = 0;
  std::vector<TraceRequest> requests;
};
/// Mooncake's format (instruments/replay/trace/trace_file.h). `speed` is seconds of the trace in a
/// second. Throws UserError, also for a request without its time or one that is earlier than the
/// one before.
Trace read_trace(const std::filesystem::path& file, double speed = 1, int block_size = 0,
                 replay::TimeUnit unit = replay::TimeUnit::kUnknown);

/// A simulated server computes one prompt after the other, in the order of their coming, and any
/// number of answers beside them. Its pool has lesson 07's order of eviction. The blocks of a
/// prompt count as cached from the moment it is sent, since the server computes it before any later
/// one.
struct Fleet {
  int num_servers = 8;
  int64_t pool_blocks = 3000;    // of each server
  double prefill_rate = 20'000;  // tokens of prompts that a server computes in a second
  double decode_rate = 50;       // tokens of one answer in a second
};

struct PolicyResult {
  Policy policy = Policy::kSeconds;
  int64_t blocks_asked = 0, blocks_found = 0;
  std::vector<double> first_token;  // seconds of each request, sorted
  std::vector<int64_t> requests;    // of each server
  std::vector<int64_t> computed;    // tokens of prompts that each server has computed

  double hit_rate() const;
  /// The smallest time that `share` of the requests do not exceed.
  double first_token_at(double share) const;
  /// Tokens computed by the server that computed most, over the mean; 1 is even.
  double busiest() const;
};

PolicyResult simulate(const Trace& trace, const Fleet& fleet, Policy policy, uint64_t seed);

std::string table_of(const std::vector<PolicyResult>& results);
nlohmann::json json_of(const PolicyResult& result);

}  // namespace route
