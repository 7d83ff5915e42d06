#pragma once

// A scheduler with its pool, and passes without a model. For tests.

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lessons/08_scheduler/scheduler.h"
#include "tests/support/readable.h"

namespace lesson08 {

/// "request 1: 5 tokens", for checks that fail.
inline std::string readable(const Chunk& chunk) {
  return fmt::format("{}: {}", chunk.id, chunk.num_tokens);
}

}  // namespace lesson08

namespace lesson08_test {

using lesson08::Chunk;
using Chunks = std::vector<Chunk>;
using Ids = std::vector<int64_t>;

/// A request of a scheduler, to be put into a state that only a later step of the exercise makes.
inline lesson08::ScheduledRequest& changed(const lesson08::ScheduledRequest& request) {
  return const_cast<lesson08::ScheduledRequest&>(request);
}

struct Books {
  Books(int num_blocks, int block_size) : pool(num_blocks, block_size), books(pool) {}
  lesson07::BlockPool pool;
  lesson08::KvCacheManager books;
};

struct PooledScheduler : Books, lesson08::Scheduler {
  PooledScheduler(int num_blocks, int block_size, const lesson08::SchedulerOptions& options = {})
      : Books(num_blocks, block_size), Scheduler(books, options) {}

  /// A pass: scheduled, written, and one token more for each request that has its logits.
  Chunks step() {
    const Chunks chunks = schedule().chunks;
    check();
    update(chunks);
    for (const Chunk& chunk : chunks) {
      if (wants_token(chunk.id)) add_token(chunk.id, 7);
    }
    check();
    return chunks;
  }
  /// Runs passes until each request has generated `tokens` tokens and ends. Returns the number of
  /// passes.
  int run_to_end(int tokens) {
    int passes = 0;
    while (!idle() && ++passes < 1000) {
      for (const Chunk& chunk : step()) {
        const auto& r = request(chunk.id);
        if (std::ssize(r.tokens) == r.num_prompt + tokens) finish(chunk.id);
      }
    }
    return passes;
  }
};

}  // namespace lesson08_test
