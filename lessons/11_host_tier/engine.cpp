#include "engine.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace lesson11 {

bool is_worth_loading(LoadPolicy policy, const Rates& rates, int block_size) {
  if (policy != LoadPolicy::kQuicker) return policy == LoadPolicy::kAlways;
  const double compute = rates.seconds_per_token * block_size;
  return compute == 0 || rates.seconds_per_block < compute;
}

void load_waiting(const Scheduler& scheduler, HostTierManager& manager) {
  int64_t room = manager.pool().num_free();
  auto free_places = scheduler.options().max_running - std::ssize(scheduler.running());
  for (const int64_t id : scheduler.waiting()) {
    const lesson08::ScheduledRequest& request = scheduler.request(id);
    if (free_places-- <= 0 || request.options.skip_reading_prefix_cache) return;
    BlockHashes hashes = request.hashes;
    const ComputedBlocks computed = manager.get_computed_blocks(request.tokens, hashes);
    room -= manager.num_blocks_to_start(id, computed, static_cast<int>(request.tokens.size()));
    if (room < 0) return;  // and those after it wait, too
    manager.load(id, request.tokens, hashes, computed);
  }
}

int64_t bytes_per_block(const kv::Model& model, const PagedOptions& options) {
  const auto element = static_cast<int64_t>(size_of(kv::activation_dtype(model.device())));
  return model.config().kv_bytes_per_token(element) * options.block_size;
}

int default_host_blocks(const kv::Model& model, const PagedOptions& options, int64_t free_bytes) {
  const int64_t fit = std::max(free_bytes / 4 / bytes_per_block(model, options), int64_t{1});
  return static_cast<int>(std::min({int64_t{4} * options.num_blocks, fit, int64_t{INT32_MAX - 1}}));
}

HostBlocks make_host_blocks(const kv::Model& model, const PagedOptions& options,
                            const HostTierOptions& tier) {
  const int num_blocks =
      tier.host_blocks > 0 ? tier.host_blocks : default_host_blocks(model, options);
  return {bytes_per_block(model, options), model.device(), num_blocks + 1};
}

double run_measured(kv::TokenChooser& chooser, const kv::PassRows& rows, kv::Attention& attention,
                    double average) {
  constexpr int kFewest = 32;  // with fewer rows, reading the weights takes most of the time
  const auto begin = std::chrono::steady_clock::now();
  chooser.run(rows, attention);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (rows.num_rows() < kFewest) return average;
  return smoothed(average, took.count() / rows.num_rows());
}

Server::Server(kv::Model& model, const PagedOptions& options, const ServeOptions& serve,
               const HostTierOptions& tier)
    : ServerBase(model, options, serve),
      tier_(tier),
      pool_(options.num_blocks, options.block_size, free_order(serve)),
      cache_(model.config(), model.stream(), pool_.index().num_ids(), options.block_size),
      regions_(lesson05::regions_of(cache_, model.stream())),
      host_(make_host_blocks(model, options, tier)),
      host_pool_(host_.num_ids() - 1, options.block_size),
      swapper_(regions_, host_, model.stream()),
      attention_(model.config(), cache_),
      manager_(pool_, host_pool_, swapper_, {.hasher = serve.hasher, .caching = serve.caching}) {
  scheduler_.emplace(manager_, serve.scheduler);
  pool_.set_event_sink(serve.on_cache_event);
}

bool Server::abort(int64_t id) {
  const bool was_there = ServerBase::abort(id);
  if (idle()) manager_.finish_loads();  // that the request was waiting for
  return was_there;
}

StepOutput Server::step(const lesson08::PassObserver<Scheduler>& on_pass) {
  if (std::exchange(reset_wanted_, false)) scheduler_->reset_prefix_cache(true);
  manager_.complete();  // blocks that have been loaded can be found from now on
  if (is_worth_loading(tier_.policy, rates(), manager_.block_size())) {
    load_waiting(*scheduler_, manager_);
  }
  const lesson08::SchedulerOutput& output = scheduler_->schedule();
  if (output.chunks.empty()) {
    manager_.wait_for_load();  // nothing to run before it is complete
    return {.preempted = output.preempted};
  }
  if (on_pass) on_pass(*scheduler_, output);
  kv::PassRows rows;
  for (const auto& chunk : output.chunks) add_rows(scheduler_->request(chunk.id), chunk, rows);
  lesson08::pad_decodes(rows, options_.pad_decodes_to);
  attention_.set_tables(tables_of(manager_, output.chunks, rows.num_seqs(), padding_));
  swapper_.let_passes_wait(manager_.take_write_job());
  seconds_per_token_ = run_measured(chooser_, rows, attention_, seconds_per_token_);
  scheduler_->update(output.chunks);  // blocks that became full can be found from now on
  StepOutput step = deliver(rows, output, chooser_, *scheduler_, streams_);
  manager_.offload(tier_.offload_ahead, tier_.min_hits_to_offload);  // beside the next pass
  return step;
}

HostTierEngine::HostTierEngine(kv::Model& model, const PagedOptions& options,
                               const ServeOptions& serve, const HostTierOptions& tier)
    : EngineOf(model, options, serve, tier) {
  if (options.num_blocks > 0) server_for({});
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options) {
  return std::make_unique<HostTierEngine>(model, options);
}

}  // namespace lesson11
