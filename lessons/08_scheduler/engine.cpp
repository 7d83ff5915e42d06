#include "engine.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "common/base/at_end.h"
#include "common/base/error.h"
#include "compute_slot_mapping.h"
#include "kernels/argmax.h"
#include "program/pool_size.h"

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
  BlockPool pool(1, options.block_size);
  KvCacheManager manager(pool);
  Scheduler(manager, serve.scheduler);  // refuses wrong options now
  if (serve.pad_decodes_to < 1) {
    kv::user_error("pad_decodes_to {}: wanted at least 1", serve.pad_decodes_to);
  }
  padding_.extend(1, std::vector<int32_t>{BlockPool::kNullBlock});
}

int64_t ServingEngine::blocks_wanted(std::span<const kv::Request> requests) const {
  if (options_.num_blocks > 0) return options_.num_blocks;
  if (serve_options_.memory_utilization != 0) {
    if (manager_) return manager_->pool().num_blocks();  // it has the memory already
    const kv::Device device = model_->device();
    const auto element = static_cast<int64_t>(size_of(kv::activation_dtype(device)));
    return blocks_for_memory(kv::memory_of(device).free, serve_options_.memory_utilization,
                             model_->config().kv_bytes_per_token(element) * options_.block_size);
  }
  return std::max<int64_t>(lesson03::blocks_needed(requests, options_.block_size), 1);
}

/// Before anything is computed.
void ServingEngine::check(std::span<const kv::Request> requests) const {
  kv::check_seq_len_limit(requests, options_.engine.max_seq_len);
  for (size_t i = 0; serve_options_.choose_on_device && i < requests.size(); ++i) {
    if (requests[i].sampling.temperature == 0) continue;
    kv::user_error("request {} has temperature {}; the device chooses greedily, wanted 0", i,
                   requests[i].sampling.temperature);
  }
}

void ServingEngine::make_cache(std::span<const kv::Request> requests) {
  const int64_t wanted = blocks_wanted(requests);
  if (wanted >= INT32_MAX) kv::user_error("{} blocks are more than can be numbered", wanted);
  int64_t longest = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    const int64_t needed = lesson03::blocks_needed(requests.subspan(i, 1), options_.block_size);
    if (needed > wanted) {
      kv::user_error(
          "request {} needs {} blocks, the pool has {}; generate fewer tokens or give the pool "
          "more blocks",
          i, needed, wanted);
    }
    longest = std::max(longest, needed);
  }
  if (manager_ && pool_->num_blocks() >= wanted) return;  // and what it caches stays
  manager_.reset();                                       // until all is made, there is nothing
  attention_.reset();
  cache_.reset();  // the old blocks go before the new ones come
  pool_.emplace(static_cast<int>(wanted), options_.block_size,
                serve_options_.caching ? serve_options_.free_order : FreeOrder::kAppend);
  cache_.emplace(model_->config(), model_->stream(), pool_->index().num_ids(), options_.block_size);
  attention_.emplace(model_->config(), *cache_);
  manager_.emplace(
      *pool_, lesson06::CacheManagerOptions{.hasher = serve_options_.hasher,
                                            .caching = serve_options_.caching,
                                            .max_blocks_per_request = static_cast<int>(longest)});
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

void ServingEngine::compute(const kv::PassRows& rows, ServedRequests& served) {
  if (serve_options_.choose_on_device) {
    model_->launch(rows, *attention_);
    served.note_launch();
    served.accept(rows, choose_tokens(rows));
  } else {
    served.accept(rows, model_->forward(rows, *attention_));
  }
}

std::vector<int32_t> ServingEngine::choose_tokens(const kv::PassRows& rows) {
  const size_t n = rows.requests.size();
  if (n == 0) return {};
  if (chosen_.bytes() < n * sizeof(int32_t)) {
    chosen_ = kv::DeviceBuffer(model_->device(), 2 * n * sizeof(int32_t));
  }
  kv::argmax({.logits = model_->device_logits(),
              .num_rows = static_cast<int>(n),
              .vocab_size = model_->config().vocab_size,
              .out = chosen_.as<int32_t>()},
             model_->stream());
  std::vector<int32_t> tokens(n);
  kv::copy_to_host(tokens.data(), chosen_.data(), n * sizeof(int32_t), model_->stream());
  return tokens;
}

kv::GenerateResult ServingEngine::generate(std::span<const kv::Request> requests,
                                           const kv::TokenCallback& on_token) {
  return serve(requests, {}, on_token).generated;
}

ServeResult ServingEngine::serve(std::span<const kv::Request> requests,
                                 std::span<const Arrival> arrivals,
                                 const kv::TokenCallback& on_token, const PassCallback& on_pass) {
  ServedRequests served(requests, arrivals, on_token, model_->config());
  check(requests);
  if (requests.empty()) return {};
  make_cache(requests);
  Scheduler scheduler(*manager_, serve_options_.scheduler);
  const kv::AtEnd free_blocks{[&] {
    for (int64_t id = 0; id < std::ssize(requests); ++id) scheduler.finish(id);
  }};
  while (served.submit_arrivals(scheduler)) {
    const std::vector<Chunk>& chunks = scheduler.schedule();
    if (chunks.empty()) continue;  // all of the pass was preempted: the next one starts anew
    if (on_pass && !on_pass({.pass = served.pass(), .scheduler = &scheduler, .chunks = chunks})) {
      served.cancel_all();
      break;
    }
    served.note_start(scheduler, chunks);
    const kv::PassRows rows = rows_of(scheduler, chunks);
    compute(rows, served);
    scheduler.update(chunks);  // what has become full can be found from now on
    served.note_end(rows, chunks, scheduler, *cache_);
  }
  return served.result(scheduler);
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const lesson03::PagedOptions& options) {
  return std::make_unique<ServingEngine>(model, options);
}

}  // namespace lesson08
