#include "engine.h"

#include <functional>
#include <utility>

#include "common/error.h"
#include "qwen3/fingerprint.h"

namespace lesson13 {

Server::Server(kv::Model& model, const PagedOptions& options, const ServeOptions& serve,
               const SharedTierOptions& tier, BlockStore& store)
    : ServerBase(model, options, serve),
      tier_options_(tier),
      cache_(model.config(), model.stream(), options.num_blocks + 1, options.block_size),
      regions_(lesson05::regions_of(cache_, model.stream())),
      memory_(lesson11::make_host_blocks(model, options, tier.host)),
      tier_(regions_, memory_, store, kv::fingerprint_of(model), model.stream(), serve, tier.shared,
            tier.run),
      attention_(model.config(), cache_, tier_) {
  scheduler_.emplace(tier_.manager(), serve.scheduler);
}

/// Decides before a byte moves whether to ask the store: not if the model computes a block faster
/// than the store has brought one. The scheduler gets the request in a step.
void Server::submit(int64_t id, const kv::Request& request, lesson08::RequestOptions options) {
  check(id, request);
  if (waiting_.contains(id)) kv::user_error("there is a request {} already", id);
  const bool look_up = !options.skip_reading_prefix_cache &&
                       is_worth_loading(tier_options_.policy, rates(), cache_.block_size());
  if (streams_.contains(id) || request.max_tokens < 1) {
    ServerBase::submit(id, request, std::move(options));  // which refuses it
    return;
  }
  tier_.add(id, request.prompt, options.extra_keys, look_up);
  waiting_.emplace(id, Waiting{request, std::move(options)});
}

/// Hands the scheduler a request that need not wait for the store, or not any longer.
void Server::submit_ready(int64_t id) {
  Waiting waiting = std::move(waiting_.at(id));
  waiting_.erase(id);
  ServerBase::submit(id, waiting.request, std::move(waiting.options));
}

bool Server::abort(int64_t id) {
  tier_.remove(id);
  const bool waited = waiting_.erase(id) > 0;
  const bool was_there = ServerBase::abort(id) || waited;
  if (idle()) tier_.manager().finish_loads();  // that the request was waiting for
  return was_there;
}

StepOutput Server::step(const lesson08::PassObserver<Scheduler>& on_pass) {
  if (std::exchange(reset_wanted_, false)) {
    tier_.set_fingerprint(kv::fingerprint_of(model_));
    scheduler_->reset_prefix_cache(true);
  }
  for (const int64_t id : tier_.complete()) submit_ready(id);
  HostTierManager& manager = tier_.manager();
  const Rates from_host{seconds_per_token_, tier_.swapper().seconds_per_block()};
  if (is_worth_loading(tier_options_.host.policy, from_host, manager.block_size())) {
    load_waiting(*scheduler_, manager);
  }
  const lesson08::SchedulerOutput& output = scheduler_->schedule();
  if (output.chunks.empty()) {
    manager.wait_for_load();               // nothing to run before it is complete
    if (scheduler_->idle()) tier_.wait();  // a millisecond at most: new requests may come
    return {.preempted = output.preempted};
  }
  if (on_pass) on_pass(*scheduler_, output);
  kv::PassRows rows;
  tier_.begin_pass();
  for (const auto& chunk : output.chunks) {
    const lesson08::ScheduledRequest& request = scheduler_->request(chunk.id);
    add_rows(request, chunk, rows);
    tier_.add_chunk(chunk.id, request.tokens, request.num_computed,
                    request.num_computed + chunk.num_tokens);
  }
  lesson08::pad_decodes(rows, options_.pad_decodes_to);
  attention_.set_tables(tables_of(manager, output.chunks, rows.num_seqs(), padding_));
  tier_.swapper().let_passes_wait(manager.take_write_job());
  seconds_per_token_ = lesson11::run_measured(chooser_, rows, attention_, seconds_per_token_);
  scheduler_->update(output.chunks);  // blocks that became full can be found from now on
  tier_.end_pass();                   // and go to the host and the store
  StepOutput step = deliver(rows, output, chooser_, *scheduler_, streams_);
  for (const kv::EndedRequest& ended : step.ended) tier_.remove(ended.id);
  return step;
}

SharedTierEngine::SharedTierEngine(kv::Model& model, const PagedOptions& options, BlockStore& store,
                                   const ServeOptions& serve, const SharedTierOptions& tier)
    : EngineOf(model, options, serve, tier, std::ref(store)) {
  if (options.num_blocks > 0) server_for({});
}

kv::GenerateResult SharedTierEngine::generate(std::span<const kv::Request> requests,
                                              const kv::TokenCallback& on_token) {
  auto result = EngineOf::generate(requests, on_token);
  if (!requests.empty()) settle();
  return result;
}

}  // namespace lesson13
