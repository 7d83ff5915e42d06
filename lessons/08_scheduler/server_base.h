#pragma once

// Shared part of the servers, which knows requests and no blocks.

#include <optional>
#include <utility>

#include "step.h"

namespace lesson08 {

/// A server between two steps. The class that derives from it has the blocks and step(). Its
/// constructor makes scheduler_, over the manager of its blocks, which end before it.
template <class SchedulerType>
class ServerBase {
 public:
  using Scheduler = SchedulerType;

  /// Throws UserError for a request that submit() refuses, whatever other requests there are.
  void check(int64_t id, const kv::Request& request) const {
    kv::check_request(request, id, model_.config());
    kv::check_seq_len_limit(request, id, max_seq_len_);
    chooser_.check(id, request);
    if (request.max_tokens < 1) return;  // the scheduler refuses it in submit()
    scheduler_->check_fits(id, request.prompt.size(), request.max_tokens);
  }
  /// Puts a request into the waiting queue. Throws UserError if a request has this id already, and
  /// as check() does; then nothing has changed.
  void submit(int64_t id, const kv::Request& request, RequestOptions options = {}) {
    check(id, request);
    TokenStreams opened;
    opened.emplace(id, kv::TokenStream(request));
    streams_.reserve(streams_.size() + 1);
    scheduler_->submit(id, request.prompt, request.max_tokens, std::move(options));
    streams_.merge(opened);  // allocates nothing
  }
  /// Ends a request, waiting or running, and frees its blocks. Returns false if there is no such
  /// request. Must not be called in the middle of a step.
  bool abort(int64_t id) {
    streams_.erase(id);
    return scheduler_->finish(id);
  }
  bool idle() const { return scheduler_->idle(); }
  /// Makes the next step preempt all running requests and empty the cache first.
  void reset_prefix_cache() { reset_wanted_ = true; }

  const Scheduler& scheduler() const { return *scheduler_; }
  const TokenChooser& chooser() const { return chooser_; }

 protected:
  ServerBase(kv::Model& model, const PagedOptions& options, const ServeOptions& serve)
      : model_(model),
        options_(checked(options, serve)),
        max_seq_len_(options.engine.max_seq_len),
        chooser_(model, serve.choose_on_device),
        padding_(options.block_size) {
    padding_.extend(1).front() = lesson07::BlockPool::kNullBlock;
  }

  kv::Model& model_;
  ServeOptions options_;
  int max_seq_len_;
  TokenChooser chooser_;
  std::optional<Scheduler> scheduler_;
  TokenStreams streams_;          // of the scheduler's requests
  lesson03::BlockTable padding_;  // of a padding row: one block, the null block
  bool reset_wanted_ = false;
};

}  // namespace lesson08
