#pragma once

// A made-up day of a chat server: users share system prompts, come back, and go on where they were.

#include <cstdint>
#include <vector>

namespace lesson07 {

struct TraceOptions {
  int num_requests = 2000;
  int num_system_prompts = 40;  // the k-th most popular is asked for in proportion to 1 / k (Zipf)
  int system_tokens = 200;      // on average
  int turn_tokens = 30;         // a question, on average; an answer is three times as long
  int max_turns = 6;            // of one conversation, 1 to this
  int num_open = 24;            // conversations that go on at the same time
  uint64_t seed = 0;
};

/// One request: a prompt, and how many tokens are generated after it.
struct TraceRequest {
  std::vector<int32_t> prompt;
  std::vector<int32_t> answer;  // what the model says, as the next turn will repeat it
};

/// Deterministic. A request of a conversation begins with the whole conversation so far.
std::vector<TraceRequest> make_trace(const TraceOptions& options);

}  // namespace lesson07
