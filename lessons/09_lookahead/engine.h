#pragma once

// A server that guesses: more rows in a pass, and perhaps more tokens from it.

#include <memory>
#include <span>

#include "lessons/08_scheduler/engine.h"
#include "lookahead_scheduler.h"

namespace lesson09 {

using kv::Arrival;
using kv::PassCallback;
using kv::ServeResult;
using kv::StepOutput;
using lesson03::PagedKvCache;
using lesson03::PagedOptions;
using lesson08::PassObserver;
using lesson08::ServeOptions;

/// The default options: a block of wrong guesses goes to the front of the free queue and is taken
/// next. So wrong guesses do not empty the cache.
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
  /// The last pass's guesses, on the device, as reject_guesses() takes them. Null if it had none.
  const int32_t* guesses() const { return guesses_; }

 private:
  const int32_t* guesses_ = nullptr;
};

class Server : public lesson08::ServerBase<LookaheadScheduler> {
 public:
  /// Borrows the model and the drafter. Throws UserError as lesson 08's server does.
  Server(kv::Model& model, Drafter& drafter, const PagedOptions& options,
         const ServeOptions& serve = default_serve_options(),
         const LookaheadOptions& lookahead = {});

  /// One pass; a request may get several tokens from it.
  StepOutput step(const PassObserver<Scheduler>& on_pass = {});

  const KvCacheManager& manager() const { return manager_; }
  const BlockPool& pool() const { return pool_; }
  const PagedKvCache& cache() const { return cache_; }

 private:
  void judge(const kv::PassRows& rows);

  BlockPool pool_;
  PagedKvCache cache_;
  LookaheadAttention attention_;  // borrows cache_
  KvCacheManager manager_;        // borrows pool_
};

/// Serves as lesson 08 does, in fewer passes if guesses are right. Counts "guesses_proposed" and
/// "guesses_accepted", too.
class LookaheadEngine : public kv::ServerEngine<Server> {
 public:
  /// A null `drafter` means a NgramDrafter. Throws UserError as lesson 08's engine does.
  LookaheadEngine(kv::Model& model, const PagedOptions& options,
                  const ServeOptions& serve = default_serve_options(),
                  const LookaheadOptions& lookahead = {},
                  std::unique_ptr<Drafter> drafter = nullptr);

  kv::GenerateResult generate(std::span<const kv::Request> requests,
                              const kv::TokenCallback& on_token = {}) override;
  ServeResult serve(std::span<const kv::Request> requests, std::span<const Arrival> arrivals,
                    const kv::TokenCallback& on_token = {},
                    const PassCallback<Scheduler>& on_pass = {});
};

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options);

}  // namespace lesson09
