#include "engine.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "common/base/at_end.h"
#include "common/base/error.h"
#include "compute_slot_mapping.h"
#include "kernels/argmax.h"

namespace lesson08 {
namespace {

/// The rows of a pass. Chunks that do not reach the end of what is known give no logits.
kv::PassRows rows_of(const Scheduler& scheduler, std::span<const Chunk> chunks) {
  kv::PassRows rows;
  for (const Chunk& chunk : chunks) {
    const ScheduledRequest& request = scheduler.request(chunk.id);
    const auto end = static_cast<size_t>(request.num_computed + chunk.num_tokens);
    rows.add(static_cast<size_t>(chunk.id), std::span(request.tokens).first(end),
             request.num_computed, end == request.tokens.size());
  }
  return rows;
}

/// A Generation whose next tokens the device may choose.
class ServedGeneration : public kv::Generation {
 public:
  using Generation::append;
  using Generation::Generation;
};

}  // namespace

void ServingAttention::add_slots(const kv::PassRows& rows, kv::PassArrays& arrays) {
  const size_t bytes = rows.token_ids.size() * sizeof(int64_t);
  if (slots_.bytes() < bytes) slots_ = kv::DeviceBuffer(stream_->device(), 2 * bytes);
  slot_mapping_ = slots_.as<const int64_t>();
  arrays.launches_depend_on(reinterpret_cast<uintptr_t>(slot_mapping_));
  arrays.after_upload([this, &arrays, num_seqs = rows.num_seqs(), num_rows = rows.num_rows()] {
    compute_slot_mapping({.first_row = arrays.first_row,
                          .seq_len = arrays.seq_len,
                          .block_tables = block_tables_,
                          .num_seqs = num_seqs,
                          .num_rows = num_rows,
                          .max_blocks_per_seq = max_blocks_per_seq_,
                          .block_size = cache_->block_size(),
                          .slot_mapping = slots_.as<int64_t>()},
                         *stream_);
  });
}

int blocks_for_memory(int64_t free_bytes, double utilization, int64_t bytes_per_block) {
  if (!(utilization > 0 && utilization <= 1)) {
    kv::user_error("memory utilization {}: wanted more than 0, and at most 1", utilization);
  }
  const double share = static_cast<double>(free_bytes) * utilization;
  const double blocks = share / static_cast<double>(bytes_per_block) - 1;  // and the null block
  if (blocks < 1) {
    kv::user_error(
        "{:.1f} MiB are free, and {:g} of that does not hold one block of {:.2f} MiB beside the "
        "null block; use smaller blocks or more of the memory",
        static_cast<double>(free_bytes) / 0x1p20, utilization,
        static_cast<double>(bytes_per_block) / 0x1p20);
  }
  return static_cast<int>(std::min(blocks, double{INT32_MAX - 1}));
}

ServingEngine::ServingEngine(kv::Model& model, const lesson03::PagedOptions& options,
                             const ServeOptions& serve)
    : model_(&model), options_(options), serve_options_(serve), padding_(options.block_size) {
  lesson03::check(options);
  KvCacheManager probe({.num_blocks = 1, .block_size = options.block_size});
  Scheduler(probe, serve.scheduler);  // refuses wrong options now
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
  if (manager_ && manager_->pool().num_blocks() >= wanted) return;  // and what it caches stays
  manager_.reset();  // until all is made, there is nothing
  attention_.reset();
  cache_.reset();  // the old blocks go before the new ones come
  cache_.emplace(model_->config(), model_->stream(), static_cast<int>(wanted) + 1,
                 options_.block_size);  // and the null block
  attention_.emplace(model_->config(), model_->stream(), *cache_);
  manager_.emplace(KvCacheManager::Options{.num_blocks = static_cast<int>(wanted),
                                           .block_size = options_.block_size,
                                           .caching = serve_options_.caching,
                                           .free_order = serve_options_.free_order,
                                           .hash_bits = serve_options_.hash_bits,
                                           .max_blocks_per_request = static_cast<int>(longest)});
}

void ServingEngine::pad(kv::PassRows& rows, lesson03::BlockTables& tables) const {
  if (rows.num_rows() != static_cast<int>(rows.requests.size())) return;  // not decodes alone
  while (rows.num_rows() % serve_options_.pad_decodes_to != 0) {
    rows.add_padding();
    tables.push_back(&padding_);
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
  if (!arrivals.empty() && arrivals.size() != requests.size()) {
    throw std::invalid_argument("serve: wanted an arrival for each request, or none");
  }
  const auto start = std::chrono::steady_clock::now();
  const auto now = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  ServeResult result;
  result.times.resize(requests.size());
  const kv::TokenCallback note_token = [&](size_t i, int32_t token) {
    if (result.times[i].first_token == 0) result.times[i].first_token = now();
    return !on_token || on_token(i, token);
  };
  ServedGeneration generation(requests, model_->config(), note_token);
  kv::check_seq_len_limit(requests, options_.engine.max_seq_len);
  if (requests.empty()) return result;
  for (size_t i = 0; serve_options_.choose_on_device && i < requests.size(); ++i) {
    if (requests[i].sampling.temperature == 0) continue;
    kv::user_error("request {} has temperature {}; the device chooses greedily, wanted 0", i,
                   requests[i].sampling.temperature);
  }
  make_cache(requests);
  Scheduler scheduler(*manager_, serve_options_.scheduler);
  const kv::AtEnd free_blocks{[&] {
    for (size_t i = 0; i < requests.size(); ++i) scheduler.finish(static_cast<int64_t>(i));
  }};
  std::vector<size_t> to_come;  // in the order of their arrival
  for (size_t i = 0; i < requests.size(); ++i) {
    if (generation.active(i)) to_come.push_back(i);
  }
  const auto arrival_of = [&](size_t i) { return arrivals.empty() ? Arrival{} : arrivals[i]; };
  std::ranges::stable_sort(to_come, {}, [&](size_t i) { return arrival_of(i).pass; });

  kv::PassTimer timer;
  kv::EngineCounters& counters = result.generated.counters;
  int64_t& most_blocks = counters.by_name["blocks_in_use"];
  int64_t& hit_tokens = counters.by_name["cache_hit_tokens"];
  double waste = 0;
  double device_done = now();
  size_t next = 0;
  for (int pass = 0; next < to_come.size() || !scheduler.idle(); ++pass) {
    if (scheduler.idle()) pass = std::max(pass, arrival_of(to_come[next]).pass);
    for (; next < to_come.size() && arrival_of(to_come[next]).pass <= pass; ++next) {
      const size_t i = to_come[next];
      result.times[i].arrived = now();
      scheduler.submit(static_cast<int64_t>(i), requests[i].prompt, requests[i].max_tokens,
                       arrival_of(i).priority);
    }
    const std::vector<Chunk>& chunks = scheduler.schedule();
    if (chunks.empty()) continue;  // all of the pass was preempted: the next one starts anew
    if (on_pass && !on_pass({.pass = pass, .scheduler = &scheduler, .chunks = chunks})) {
      for (size_t i = 0; i < requests.size(); ++i) generation.cancel(i);
      break;
    }

    kv::PassRows rows = rows_of(scheduler, chunks);
    const int num_rows = rows.num_rows();
    lesson03::BlockTables tables;
    for (const Chunk& chunk : chunks) {
      const ScheduledRequest& request = scheduler.request(chunk.id);
      if (request.num_computed == request.num_cached && request.num_cached > 0) {
        hit_tokens += request.num_cached;
      }
      RequestTimes& times = result.times[static_cast<size_t>(chunk.id)];
      if (times.first_token == 0 && request.num_preemptions == 0) {
        times.num_cached_tokens = request.num_cached;
      }
      tables.push_back(&manager_->table(chunk.id));
    }
    pad(rows, tables);
    attention_->set_tables(std::move(tables));
    if (serve_options_.choose_on_device) {
      model_->launch(rows, *attention_);
      result.host_seconds.push_back(now() - device_done);
      const std::vector<int32_t> chosen = choose_tokens(rows);
      for (size_t i = 0; i < chosen.size(); ++i) generation.append(rows.requests[i], chosen[i]);
      device_done = now();
    } else {
      generation.accept(rows, model_->forward(rows, *attention_));
    }
    scheduler.update(chunks);

    const int64_t used = manager_->pool().num_used();
    most_blocks = std::max(most_blocks, used);
    const int64_t slots = used * manager_->block_size();
    const int64_t filled = manager_->num_slots_used();
    waste += static_cast<double>(slots - filled) / static_cast<double>(slots);
    kv::note_kv_bytes(counters, used * cache_->bytes_per_block(),
                      filled * cache_->bytes_per_token());
    for (const size_t i : rows.requests) {
      const auto id = static_cast<int64_t>(i);
      if (generation.active(i)) {
        scheduler.add_token(id, generation.tokens(i).back());
        continue;
      }
      result.times[i].num_preemptions = scheduler.request(id).num_preemptions;
      result.times[i].ended = now();
      scheduler.finish(id);
    }
    timer.end_pass(num_rows, result.generated);
  }
  result.num_preemptions = scheduler.num_preemptions();
  if (counters.passes > 0) result.waste = waste / static_cast<double>(counters.passes);
  result.generated.completions = generation.completions();
  return result;
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const lesson03::PagedOptions& options) {
  return std::make_unique<ServingEngine>(model, options);
}

}  // namespace lesson08
