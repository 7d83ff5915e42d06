#pragma once

// A scheduler that looks ahead, with its pool and a drafter made of a function; passes without a
// model. For tests.

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "lessons/08_scheduler/test/pooled_scheduler.h"
#include "lessons/09_lookahead/lookahead_scheduler.h"

namespace lesson09_test {

using lesson08_test::Chunks;
using lesson08_test::Ids;
using Tokens = std::vector<int32_t>;

/// A drafter that is a function.
class FunctionDrafter : public lesson09::Drafter {
 public:
  using Function =
      std::function<Tokens(int64_t id, std::span<const int32_t> tokens, int max_guesses)>;
  explicit FunctionDrafter(Function function) : function_(std::move(function)) {}
  Tokens propose(int64_t id, std::span<const int32_t> tokens, int max_guesses) override {
    return function_(id, tokens, max_guesses);
  }

 private:
  Function function_;
};

/// The same token again and again.
inline FunctionDrafter::Function always(int32_t token) {
  return [token](int64_t, std::span<const int32_t>, int max_guesses) {
    return Tokens(max_guesses, token);
  };
}

struct Books {
  Books(int num_blocks, int block_size, FunctionDrafter::Function drafts,
        lesson07::FreeOrder order = lesson07::FreeOrder::kUnhashedFirst)
      : pool(num_blocks, block_size, order), books(pool), drafter(std::move(drafts)) {}
  lesson07::BlockPool pool;
  lesson06::KvCacheManager books;
  FunctionDrafter drafter;
};

struct PooledScheduler : Books, lesson09::LookaheadScheduler {
  PooledScheduler(int num_blocks, int block_size, FunctionDrafter::Function drafts,
                  int num_guesses = 4, const lesson08::SchedulerOptions& options = {},
                  lesson07::FreeOrder order = lesson07::FreeOrder::kUnhashedFirst)
      : Books(num_blocks, block_size, std::move(drafts), order),
        LookaheadScheduler(books, pool, drafter, options, {.num_guesses = num_guesses}) {}

  /// A pass: scheduled, written, and token 7 for each request, as often as it wants one.
  Chunks step() {
    const Chunks chunks = schedule().chunks;
    check();
    update(chunks);
    for (const lesson08::Chunk& chunk : chunks) give(chunk.id);
    check();
    return chunks;
  }
  /// Gives a request `token` for each row of logits of its last pass, while it wants one. Returns
  /// the number of tokens given.
  int give(int64_t id, int32_t token = 7) {
    size_t rows = 1 + guesses(id).size();
    int taken = 0;
    for (; rows > 0 && wants_token(id); --rows, ++taken) add_token(id, token);
    return taken;
  }
  int num_slots(int64_t id) const { return manager().table(id).num_tokens(); }
  int num_known(int64_t id) const { return static_cast<int>(request(id).tokens.size()); }
};

}  // namespace lesson09_test
