#pragma once

// The results of a server's steps. From lesson 08 on a lesson has a server: requests may be
// submitted and aborted at any time, and step() runs one pass.

#include <cstdint>
#include <vector>

#include "qwen3/engine.h"

namespace kv {

/// A token that a request got.
struct NewToken {
  int64_t id = 0;
  int32_t token = 0;
  uint64_t logits_xxh64 = 0;  // digest of all logits that the request's tokens were drawn from
  std::vector<TokenLogprob> logprobs = {};  // if the request wants them; its own comes first
};

struct EndedRequest {
  int64_t id = 0;
  FinishReason reason = FinishReason::kLength;
};

/// Result of one step. A step without rows ran no pass: the server is idle, or all running requests
/// were preempted.
struct StepOutput {
  std::vector<NewToken> tokens = {};     // in the order of the pass
  std::vector<EndedRequest> ended = {};  // requests whose last token is among `tokens`; the server
                                         // has forgotten them
  std::vector<int64_t> preempted = {};
  int num_rows = 0;  // rows that ran, without padding
};

}  // namespace kv
