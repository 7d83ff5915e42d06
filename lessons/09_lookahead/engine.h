#pragma once

// Lesson 08's loop with guesses: more rows in a pass, and perhaps more tokens from it.

#include <memory>
#include <optional>
#include <span>

#include "lessons/08_scheduler/engine.h"
#include "lookahead_scheduler.h"

namespace lesson09 {

using lesson03::PagedKvCache;
using lesson03::PagedOptions;
using lesson07::BlockPool;
using lesson08::Arrival;
using lesson08::ServeOptions;
using lesson08::ServeResult;

/// Called before each pass. Returning false cancels every unfinished request.
using PassCallback = std::function<bool(const LookaheadScheduler&, const SchedulerOutput&)>;

/// What serving is like if nothing else is wanted: a guess's block that comes back is the next one
/// to be taken, so that guesses that are wrong again and again do not empty the cache.
inline ServeOptions default_serve_options() {
  ServeOptions options;
  options.free_order = lesson07::FreeOrder::kUnhashedFirst;
  return options;
}

/// A pass that checks guesses is a pass of decodes with a few rows for each sequence: a CUDA graph
/// can replay it, too.
class LookaheadAttention : public lesson08::ServingAttention {
 public:
  using ServingAttention::ServingAttention;
  void begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) override;
};

/// Serves as lesson 08 does, in fewer passes if guesses are right. The pool and what it caches stay
/// from one call to the next, unless that one needs a larger pool.
class LookaheadEngine : public kv::Engine {
 public:
  /// `drafter` null: n-grams. Throws UserError as lesson 08's engine does.
  LookaheadEngine(kv::Model& model, const PagedOptions& options,
                  const ServeOptions& serve = default_serve_options(),
                  const LookaheadOptions& lookahead = {},
                  std::unique_ptr<Drafter> drafter = nullptr);

  /// All requests come at once.
  kv::GenerateResult generate(std::span<const kv::Request> requests,
                              const kv::TokenCallback& on_token = {}) override;
  /// As lesson 08's. Counts "guesses_proposed" and "guesses_accepted", too.
  ServeResult serve(std::span<const kv::Request> requests, std::span<const Arrival> arrivals,
                    const kv::TokenCallback& on_token = {}, const PassCallback& on_pass = {});

  /// Before the next pass the cache is forgotten, and who runs is preempted. For callbacks, too.
  void reset_prefix_cache() { reset_wanted_ = true; }

  /// Null before the first call.
  const LookaheadManager* manager() const { return manager_ ? &*manager_ : nullptr; }

 private:
  void make_cache(std::span<const kv::Request> requests);
  kv::PassRows rows_of(const LookaheadScheduler& scheduler, std::span<const Chunk> chunks);

  kv::Model* model_;
  PagedOptions options_;
  ServeOptions serve_options_;
  LookaheadOptions lookahead_;
  std::unique_ptr<Drafter> drafter_;
  std::optional<PagedKvCache> cache_;
  std::optional<LookaheadAttention> attention_;  // borrows cache_
  std::optional<BlockPool> pool_;
  std::optional<LookaheadManager> manager_;  // borrows pool_
  bool reset_wanted_ = false;
};

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options);

}  // namespace lesson09
