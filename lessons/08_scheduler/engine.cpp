#include "engine.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/at_end.h"
#include "compute_slot_mapping.h"

namespace lesson08 {

void ServingAttention::add_slots(const kv::PassRows& rows, kv::PassArrays& arrays) {
  arrays.make_room(slots_, rows.token_ids.size() * sizeof(int64_t));
  slot_mapping_ = slots_.as<const int64_t>();
  arrays.after_upload([this, &arrays, &rows](const kv::Stream& stream) {
    compute_slot_mapping({.first_row = arrays.first_row,
                          .seq_len = arrays.seq_len,
                          .block_tables = block_tables_,
                          .num_seqs = rows.num_seqs(),
                          .num_rows = rows.num_rows(),
                          .max_blocks_per_seq = max_blocks_per_seq_,
                          .block_size = cache_->block_size(),
                          .slot_mapping = slots_.as<int64_t>()},
                         stream);
  });
}

ServingEngine::ServingEngine(kv::Model& model, const lesson03::PagedOptions& options,
                             const ServeOptions& serve)
    : model_(&model), options_(options), serve_options_(serve), padding_(options.block_size) {
  lesson03::check(options);
  check(serve);
  padding_.extend(1, std::vector<int32_t>{BlockPool::kNullBlock});
}

void ServingEngine::make_cache(std::span<const kv::Request> requests) {
  const bool takes_memory = options_.num_blocks == 0 && serve_options_.memory_utilization != 0;
  if (manager_ && takes_memory) return;
  const int wanted = pool_size(requests, options_, serve_options_, *model_);
  if (manager_ && pool_->num_blocks() >= wanted) return;  // and what it caches stays
  const lesson07::EventSink& sink = serve_options_.on_cache_event;
  if (manager_ && sink) sink({.kind = lesson07::CacheEvent::Kind::kCleared});
  manager_.reset();  // until all is made, there is nothing
  attention_.reset();
  cache_.reset();  // the old blocks go before the new ones come
  pool_.emplace(wanted, options_.block_size,
                serve_options_.caching ? serve_options_.free_order : lesson07::FreeOrder::kAppend);
  pool_->set_event_sink(sink);
  cache_.emplace(model_->config(), model_->stream(), pool_->index().num_ids(), options_.block_size);
  attention_.emplace(model_->config(), *cache_);
  manager_.emplace(
      *pool_, lesson06::CacheManagerOptions{
                  .hasher = serve_options_.hasher,
                  .caching = serve_options_.caching,
                  .max_blocks_per_request = most_blocks_of_one(requests, options_.block_size)});
}

/// The rows of a pass, and their tables for the attention. A chunk that does not reach the end of
/// what is known wants no logits.
kv::PassRows ServingEngine::rows_of(const Scheduler& scheduler, std::span<const Chunk> chunks) {
  kv::PassRows rows;
  lesson03::BlockTables tables;
  for (const Chunk& chunk : chunks) {
    const ScheduledRequest& request = scheduler.request(chunk.id);
    const auto end = static_cast<size_t>(request.num_computed + chunk.num_tokens);
    rows.add(static_cast<size_t>(chunk.id), std::span(request.tokens).first(end),
             request.num_computed, end == request.tokens.size());
    tables.push_back(&manager_->table(chunk.id));
  }
  const bool decodes_only = rows.num_rows() == static_cast<int>(rows.requests.size());
  while (decodes_only && rows.num_rows() % serve_options_.pad_decodes_to != 0) {
    rows.add_padding();
    tables.push_back(&padding_);
  }
  attention_->set_tables(std::move(tables));
  return rows;
}

kv::GenerateResult ServingEngine::generate(std::span<const kv::Request> requests,
                                           const kv::TokenCallback& on_token) {
  return serve(requests, {}, on_token).generated;
}

ServeResult ServingEngine::serve(std::span<const kv::Request> requests,
                                 std::span<const Arrival> arrivals,
                                 const kv::TokenCallback& on_token, const PassCallback& on_pass) {
  ServedRequests served(requests, arrivals, on_token, *model_, serve_options_);
  kv::check_seq_len_limit(requests, options_.engine.max_seq_len);
  if (requests.empty()) return {};
  make_cache(requests);
  Scheduler scheduler(*manager_, serve_options_.scheduler);
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
    scheduler.update(output.chunks);  // what has become full can be found from now on
    served.note_end(rows, output, scheduler, *cache_);
  }
  return served.result(scheduler);
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const lesson03::PagedOptions& options) {
  return std::make_unique<ServingEngine>(model, options);
}

}  // namespace lesson08
