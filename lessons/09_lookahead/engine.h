#pragma once

// Lesson 08's loop with guesses: more rows in a pass, and perhaps more tokens from it.

#include <functional>
#include <memory>
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
/// can replay it, too. Its guesses go to the device with its other arrays.
class LookaheadAttention : public lesson08::ServingAttention {
 public:
  using ServingAttention::ServingAttention;
  void begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) override;
  /// Of the last pass, on the device, as reject_guesses() wants them. Null: it had none.
  const int32_t* guesses() const { return guesses_; }

 private:
  const int32_t* guesses_ = nullptr;
};

/// Serves as lesson 08 does, in fewer passes if guesses are right. Counts "guesses_proposed" and
/// "guesses_accepted", too.
class LookaheadEngine : public lesson08::ServingEngine {
 public:
  /// `drafter` null: n-grams. Throws UserError as lesson 08's engine does.
  LookaheadEngine(kv::Model& model, const PagedOptions& options,
                  const ServeOptions& serve = default_serve_options(),
                  const LookaheadOptions& lookahead = {},
                  std::unique_ptr<Drafter> drafter = nullptr);

  /// As lesson 08's.
  ServeResult serve(std::span<const kv::Request> requests, std::span<const Arrival> arrivals,
                    const kv::TokenCallback& on_token = {}, const PassCallback& on_pass = {});
  const LookaheadManager* manager() const;

 protected:
  std::unique_ptr<KvCacheManager> make_manager(
      BlockPool& pool, const lesson06::CacheManagerOptions& options) override;
  std::unique_ptr<Scheduler> make_scheduler(KvCacheManager& manager) override;
  std::unique_ptr<lesson08::ServingAttention> make_attention(PagedKvCache& cache) const override;
  void add_rows(const Scheduler& scheduler, const Chunk& chunk, kv::PassRows& rows) const override;
  void on_chosen(const kv::PassRows& rows, int32_t* device_chosen) override;
  void add_counters(const Scheduler& scheduler, kv::EngineCounters& counters) const override;

 private:
  LookaheadOptions lookahead_;
  std::unique_ptr<Drafter> drafter_;
};

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options);

}  // namespace lesson09
