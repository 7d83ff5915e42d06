#pragma once

// A made-up day of a chat server: users share system prompts, come back, and go on where they were.
// play() runs it through the bookkeeping alone, to measure how much of it a pool finds.

#include <cstdint>
#include <vector>

#include "lessons/07_lru_eviction/block_pool.h"

namespace lesson07 {

struct TraceOptions {
  int num_requests = 2000;
  int num_system_prompts = 40;  // the k-th most popular is asked for in proportion to 1 / k (Zipf)
  int system_tokens = 200;      // on average
  int turn_tokens = 30;         // a question, on average; an answer is three times as long
  int max_turns = 6;            // of one conversation: 1 to max_turns
  int num_open = 24;            // conversations that go on at the same time
  uint64_t seed = 0;
};

struct TraceRequest {
  std::vector<int32_t> prompt;
  std::vector<int32_t> answer;  // the model's, which the next turn repeats
};

/// Deterministic. A request of a conversation begins with the whole conversation so far.
std::vector<TraceRequest> make_trace(const TraceOptions& options);

/// Share of the prompt tokens that an empty pool finds: one request after the other is looked up,
/// computed, generates its answer and is freed. A request larger than the pool finds nothing.
double play(const std::vector<TraceRequest>& trace, lesson06::CachePool& pool);

/// Pool sizes to compare, in slots.
inline constexpr int kPoolSlots[] = {2048, 4096, 8192, 16384, 32768, 65536, 131072};

}  // namespace lesson07
