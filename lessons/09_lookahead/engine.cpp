#include "engine.h"

#include <utility>

#include "common/base/at_end.h"

namespace lesson09 {
namespace {

/// Guesses after the rows of the sequence that was added last. Each wants logits: they choose the
/// token after it.
void add_guesses(kv::PassRows& rows, size_t request, std::span<const int32_t> guesses) {
  for (const int32_t token : guesses) {
    rows.token_ids.push_back(token);
    rows.positions.push_back(rows.seq_len.back()++);
    rows.logit_rows.push_back(rows.first_row.back()++);
    rows.requests.push_back(request);
  }
}

}  // namespace

void LookaheadAttention::begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) {
  ServingAttention::begin_pass(rows, arrays);
  const bool no_prompt = std::ssize(rows.logit_rows) == rows.num_rows();
  if (!no_prompt || rows.max_rows_per_seq() == 1) return;  // that one is lesson 04's business
  arrays.launches_depend_on(static_cast<uint64_t>(rows.max_rows_per_seq()));
  arrays.allow_replay();
}

LookaheadEngine::LookaheadEngine(kv::Model& model, const PagedOptions& options,
                                 const ServeOptions& serve, const LookaheadOptions& lookahead,
                                 std::unique_ptr<Drafter> drafter)
    : model_(&model),
      options_(options),
      serve_options_(serve),
      lookahead_(lookahead),
      drafter_(drafter ? std::move(drafter) : std::make_unique<NgramDrafter>()) {
  lesson03::check(options);
  check(serve);
  check(lookahead);
}

void LookaheadEngine::make_cache(std::span<const kv::Request> requests) {
  const bool takes_memory = options_.num_blocks == 0 && serve_options_.memory_utilization != 0;
  if (manager_ && takes_memory) return;
  const int wanted = pool_size(requests, options_, serve_options_, *model_);
  if (manager_ && pool_->num_blocks() >= wanted) return;  // and what it caches stays
  manager_.reset();                                       // until all is made, there is nothing
  attention_.reset();
  cache_.reset();  // the old blocks go before the new ones come
  pool_.emplace(wanted, options_.block_size,
                serve_options_.caching ? serve_options_.free_order : lesson07::FreeOrder::kAppend);
  cache_.emplace(model_->config(), model_->stream(), pool_->index().num_ids(), options_.block_size);
  attention_.emplace(model_->config(), *cache_);
  manager_.emplace(
      *pool_, lesson06::CacheManagerOptions{.hasher = serve_options_.hasher,
                                            .caching = serve_options_.caching,
                                            .max_blocks_per_request = lesson08::most_blocks_of_one(
                                                requests, options_.block_size)});
}

/// The rows of a pass, guesses among them, and their tables for the attention.
kv::PassRows LookaheadEngine::rows_of(const LookaheadScheduler& scheduler,
                                      std::span<const Chunk> chunks) {
  kv::PassRows rows;
  lesson03::BlockTables tables;
  for (const Chunk& chunk : chunks) {
    const ScheduledRequest& request = scheduler.request(chunk.id);
    const auto end = static_cast<size_t>(request.num_computed + chunk.num_tokens);
    const auto i = static_cast<size_t>(chunk.id);
    rows.add(i, std::span(request.tokens).first(end), request.num_computed,
             end == request.tokens.size());
    add_guesses(rows, i, scheduler.guesses(chunk.id));
    tables.push_back(&manager_->table(chunk.id));
  }
  attention_->set_tables(std::move(tables));
  return rows;
}

kv::GenerateResult LookaheadEngine::generate(std::span<const kv::Request> requests,
                                             const kv::TokenCallback& on_token) {
  return serve(requests, {}, on_token).generated;
}

ServeResult LookaheadEngine::serve(std::span<const kv::Request> requests,
                                   std::span<const Arrival> arrivals,
                                   const kv::TokenCallback& on_token, const PassCallback& on_pass) {
  lesson08::ServedRequests served(requests, arrivals, on_token, *model_, serve_options_);
  kv::check_seq_len_limit(requests, options_.engine.max_seq_len);
  if (requests.empty()) return {};
  make_cache(requests);
  LookaheadScheduler scheduler(*manager_, *drafter_, serve_options_.scheduler, lookahead_);
  served.check(scheduler);
  const kv::AtEnd free_blocks{[&] {
    for (int64_t id = 0; id < std::ssize(requests); ++id) scheduler.finish(id);
  }};
  while (served.submit_arrivals(scheduler)) {
    if (std::exchange(reset_wanted_, false)) scheduler.reset_prefix_cache(true);
    const SchedulerOutput& output = scheduler.schedule();
    if (output.chunks.empty()) continue;  // all of it was preempted: the next one starts anew
    if (on_pass && !on_pass(scheduler, output)) {
      served.cancel_all();
      break;
    }
    served.note_start(scheduler, output);
    const kv::PassRows rows = rows_of(scheduler, output.chunks);
    served.compute(rows, *attention_);
    scheduler.update(output.chunks);
    served.note_end(rows, output, scheduler, *cache_);  // a guess is judged when its token is drawn
  }
  ServeResult result = served.result(scheduler);
  auto& counts = result.generated.counters.by_name;
  counts["guesses_proposed"] = scheduler.num_proposed();
  counts["guesses_accepted"] = scheduler.num_accepted();
  return result;
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options) {
  return std::make_unique<LookaheadEngine>(model, options);
}

}  // namespace lesson09
