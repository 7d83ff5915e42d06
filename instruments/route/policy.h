#pragma once

// Which server a request is sent to. Each policy is a cost of each server, as its source states it;
// the request goes where the cost is least, and ties are broken at random.

#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace route {

enum class Policy {
  kRoundRobin,  // one server after the other
  kRandom,      // any
  kLeast,       // the fewest requests in flight
  kOverlap,     // the most blocks of the prompt in the cache, whatever the load
  kSglang,      // sgl-router's cache_aware
  kDynamo,      // NVIDIA Dynamo's KV router
  kLlmD,        // llm-d's weighted scorers
  kSeconds,  // the shortest time to the first token: what waits and what is missing, over the rate
};
inline constexpr const char* kPolicyNames[] = {"round-robin", "random", "least", "overlap",
                                               "sglang",      "dynamo", "llm-d", "seconds"};
const char* name_of(Policy policy);
std::optional<Policy> policy_of(const std::string& name);

/// The prompt of the request that is to be sent.
struct Prompt {
  int64_t tokens = 0;
  int64_t blocks = 0;  // full ones
  int block_size = 1;  // tokens
};

/// A server as the router sees it when the request comes.
struct ServerView {
  int64_t cached_blocks = 0;   // first blocks of the prompt that are in its cache
  int64_t store_blocks = 0;    // blocks after these that the shared store has
  int64_t sent_blocks = 0;     // first blocks of the prompt that were sent there before
  int64_t tree_blocks = 0;     // different blocks that were sent there before
  int64_t waiting_tokens = 0;  // of prompts that were sent there and are not computed yet
  int64_t held_blocks = 0;     // of the requests in flight there
  int64_t pool_blocks = 1;     // of its whole cache
  int64_t waiting = 0;         // requests there without a first token
  int64_t running = 0;         // requests in flight there, the waiting ones included
  double rate = 1;             // tokens of prompts that it computes in a second
  double store_seconds = 0;    // in which a block comes from the store
};

/// The cost of each server; all are equal for round-robin and random.
std::vector<double> costs(Policy policy, const Prompt& prompt, std::span<const ServerView> servers);

/// Chooses among the servers. Has the random numbers, and the place of round-robin.
class Chooser {
 public:
  Chooser(Policy policy, uint64_t seed) : policy_(policy), random_(seed) {}
  /// The index of a server. `servers` must not be empty.
  size_t choose(const Prompt& prompt, std::span<const ServerView> servers);
  Policy policy() const { return policy_; }

 private:
  Policy policy_;
  std::mt19937_64 random_;
  size_t next_ = 0;
};

}  // namespace route
