#include "engine.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/at_end.h"

namespace lesson08 {

ComputeSlotMappingArgs ServingAttention::slot_args(const kv::PassRows& rows,
                                                   const kv::PassArrays& arrays) const {
  return {.first_row = arrays.first_row,
          .seq_len = arrays.seq_len,
          .block_tables = block_tables_,
          .num_seqs = rows.num_seqs(),
          .num_rows = rows.num_rows(),
          .max_blocks_per_seq = max_blocks_per_seq_,
          .block_size = cache_->block_size(),
          .slot_mapping = slots_.as<int64_t>()};
}

void ServingAttention::add_slots(const kv::PassRows& rows, kv::PassArrays& arrays) {
  arrays.make_room(slots_, rows.token_ids.size() * sizeof(int64_t));
  slot_mapping_ = slots_.as<const int64_t>();
  arrays.after_upload([this, &arrays, &rows](const kv::Stream& stream) {
    compute_slot_mapping(slot_args(rows, arrays), stream);
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
  const kv::ModelConfig config = cache_config();
  const int wanted = pool_size(blocks_needed(requests), config, options_, serve_options_, *model_);
  if (manager_ && pool_->num_blocks() >= wanted) return;  // and what it caches stays
  const lesson07::EventSink& sink = serve_options_.on_cache_event;
  if (manager_ && sink) sink({.kind = lesson07::CacheEvent::Kind::kCleared});
  manager_.reset();  // until all is made, there is nothing
  attention_.reset();
  cache_.reset();  // the old blocks go before the new ones come
  pool_.emplace(wanted, options_.block_size,
                serve_options_.caching ? serve_options_.free_order : lesson07::FreeOrder::kAppend);
  pool_->set_event_sink(sink);
  cache_.emplace(config, model_->stream(), pool_->index().num_ids(), options_.block_size);
  attention_ = make_attention(*cache_);
  manager_ = make_manager(
      *pool_, {.hasher = serve_options_.hasher,
               .caching = serve_options_.caching,
               .max_blocks_per_request = most_blocks_of_one(requests, options_.block_size)});
}

int64_t ServingEngine::blocks_needed(std::span<const kv::Request> requests) const {
  return lesson03::blocks_needed(requests, options_.block_size);
}

std::unique_ptr<KvCacheManager> ServingEngine::make_manager(
    BlockPool& pool, const lesson06::CacheManagerOptions& options) {
  return std::make_unique<KvCacheManager>(pool, options);
}

std::unique_ptr<Scheduler> ServingEngine::make_scheduler(KvCacheManager& manager) {
  return std::make_unique<Scheduler>(manager, scheduler_options());
}

std::unique_ptr<ServingAttention> ServingEngine::make_attention(PagedKvCache& cache) const {
  return std::make_unique<ServingAttention>(model_->config(), cache);
}

void ServingEngine::add_rows(const Scheduler& scheduler, const Chunk& chunk,
                             kv::PassRows& rows) const {
  const ScheduledRequest& request = scheduler.request(chunk.id);
  const auto end = static_cast<size_t>(request.num_computed + chunk.num_tokens);
  rows.add(static_cast<size_t>(chunk.id), std::span(request.tokens).first(end),
           request.num_computed, end == request.tokens.size());
}

lesson03::BlockTables ServingEngine::tables_of(std::span<const Chunk> chunks, int num_seqs) const {
  lesson03::BlockTables tables;
  for (const Chunk& chunk : chunks) tables.push_back(&manager_->table(chunk.id));
  tables.resize(static_cast<size_t>(num_seqs), &padding_);
  return tables;
}

/// The rows of a pass, and their tables for the attention.
kv::PassRows ServingEngine::rows_of(const Scheduler& scheduler, std::span<const Chunk> chunks) {
  kv::PassRows rows;
  for (const Chunk& chunk : chunks) add_rows(scheduler, chunk, rows);
  const bool decodes_only = rows.num_rows() == static_cast<int>(rows.requests.size());
  while (decodes_only && rows.num_rows() % serve_options_.pad_decodes_to != 0) rows.add_padding();
  attention_->set_tables(tables_of(chunks, rows.num_seqs()));
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
  const std::unique_ptr<Scheduler> owned = make_scheduler(*manager_);
  Scheduler& scheduler = *owned;
  served.check(scheduler);
  const kv::AtEnd free_blocks{[&] {
    for (int64_t id = 0; id < std::ssize(requests); ++id) scheduler.finish(id);
  }};
  while (served.submit_arrivals(scheduler)) {
    if (std::exchange(reset_wanted_, false)) scheduler.reset_prefix_cache(true);
    const SchedulerOutput& output = scheduler.schedule();
    before_pass(scheduler, output);
    if (output.chunks.empty()) continue;  // all of it was preempted: the next one starts anew
    if (on_pass && !on_pass(scheduler, output)) {
      served.cancel_all();
      break;
    }
    served.note_start(scheduler, output);
    const kv::PassRows rows = rows_of(scheduler, output.chunks);
    served.compute(rows, *attention_, [&](int32_t* chosen) { on_chosen(rows, chosen); });
    scheduler.update(output.chunks);  // what has become full can be found from now on
    served.note_end(rows, output, scheduler, *cache_);
    after_pass(scheduler, output);
  }
  ServeResult result = served.result(scheduler);
  add_counters(scheduler, result.generated.counters);
  return result;
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const lesson03::PagedOptions& options) {
  return std::make_unique<ServingEngine>(model, options);
}

}  // namespace lesson08
