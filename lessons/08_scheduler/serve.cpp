#include "serve.h"

#include <algorithm>
#include <stdexcept>

#include "common/error.h"
#include "common/table.h"

namespace lesson08 {

void check(const SchedulerOptions& options) {
  if (options.max_tokens_per_pass < 1 || options.max_running < 1 || options.max_chunk < 0) {
    kv::user_error("token budget {}, running requests {}, chunk {}: wanted at least 1, 1, and 0",
                   options.max_tokens_per_pass, options.max_running, options.max_chunk);
  }
  if (!options.chunked_prefill && options.max_chunk > 0) {
    kv::user_error("chunks of {}, and no chunked prefill: wanted one or the other",
                   kv::count_of(options.max_chunk, "token"));
  }
}

void check(const ServeOptions& options) {
  check(options.scheduler);
  if (options.pad_decodes_to < 1) {
    kv::user_error("pad_decodes_to {}: wanted at least 1", options.pad_decodes_to);
  }
}

const ServeOptions& checked(const lesson03::PagedOptions& options, const ServeOptions& serve) {
  lesson03::check(options);
  check(serve);
  return serve;
}

lesson03::BlockTable padding_table(int block_size) {
  lesson03::BlockTable table(block_size);
  table.extend(1, std::vector<int32_t>{lesson07::BlockPool::kNullBlock});
  return table;
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

int pool_size(int64_t all, const kv::ModelConfig& config, const lesson03::PagedOptions& options,
              const ServeOptions& serve, const kv::Model& model) {
  if (options.num_blocks == 0 && serve.memory_utilization != 0) {
    const auto element = static_cast<int64_t>(size_of(kv::activation_dtype(model.device())));
    return blocks_for_memory(kv::memory_of(model.device()).free, serve.memory_utilization,
                             config.kv_bytes_per_token(element) * options.block_size);
  }
  return lesson03::num_blocks_for(options.num_blocks > 0 ? options.num_blocks : all, options);
}

int max_blocks_of_one(std::span<const kv::Request> requests, int block_size) {
  int64_t most = 1;
  for (size_t i = 0; i < requests.size(); ++i) {
    most = std::max(most, lesson03::blocks_needed(requests.subspan(i, 1), block_size));
  }
  return static_cast<int>(most);
}

ServedRequests::ServedRequests(std::span<const kv::Request> requests,
                               std::span<const Arrival> arrivals)
    : requests_(requests),
      arrivals_(arrivals.begin(), arrivals.end()),
      cancelled_(requests.size()),
      cut_(requests.size()) {
  if (!arrivals.empty() && arrivals.size() != requests.size()) {
    throw std::invalid_argument("serve: wanted an arrival for each request, or none");
  }
  arrivals_.resize(requests.size());
  result_.times.resize(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    if (kv::follows_sample(requests, i)) ++arrivals_[i].pass;
    const bool generates = requests[i].max_tokens > 0;
    if (generates) to_come_.push_back(i);
    result_.generated.completions.push_back(
        {.tokens = {},
         .logits_xxh64 = kv::LogitsDigest().value(),
         .finish = generates ? kv::FinishReason::kCancelled : kv::FinishReason::kLength});
  }
  std::ranges::stable_sort(to_come_, {}, [&](size_t i) { return arrivals_[i].pass; });
}

double ServedRequests::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

std::vector<size_t> ServedRequests::next_arrivals(bool idle) {
  std::vector<size_t> arrived;
  ++pass_;
  if (idle) pass_ = std::max(pass_, arrivals_[to_come_[num_came_]].pass);
  for (; !all_came() && arrivals_[to_come_[num_came_]].pass <= pass_; ++num_came_) {
    arrived.push_back(to_come_[num_came_]);
    result_.times[arrived.back()].arrived = now();
  }
  return arrived;
}

void ServedRequests::note_hit(const ScheduledRequest& request) {
  result_.generated.counters.by_name["cache_hit_tokens"] += request.num_cached;
  if (request.num_preemptions > 0) return;
  result_.times[static_cast<size_t>(request.id)].num_cached_tokens = request.num_cached;
}

void ServedRequests::note_blocks(int64_t blocks_used, int64_t slots_used,
                                 const lesson03::PagedKvCache& cache) {
  kv::EngineCounters& counters = result_.generated.counters;
  const int64_t slots = blocks_used * cache.block_size();
  counters.note_peak("blocks_in_use", blocks_used);
  result_.waste += static_cast<double>(slots - slots_used) / static_cast<double>(slots);
  kv::note_kv_bytes(counters, blocks_used * cache.bytes_per_block(),
                    slots_used * cache.bytes_per_token());
}

bool ServedRequests::note_token(const NewToken& token, const kv::TokenCallback& on_token) {
  const auto i = static_cast<size_t>(token.id);
  if (cancelled_[i]) {
    cut_[i] = true;
    return false;
  }
  kv::Completion& completion = result_.generated.completions[i];
  completion.tokens.push_back(token.token);
  completion.logits_xxh64 = token.logits_xxh64;
  RequestTimes& times = result_.times[i];
  times.ended = now();
  if (times.first_token == 0) times.first_token = times.ended;
  cancelled_[i] = on_token && !on_token(i, token.token);
  return !cancelled_[i];
}

void ServedRequests::note_step(const StepOutput& step, const TokenChooser& chooser) {
  for (const Ended& ended : step.ended) {
    const auto i = static_cast<size_t>(ended.id);
    if (!cut_[i]) result_.generated.completions[i].finish = ended.reason;
  }
  for (const int64_t id : step.preempted) {
    ++result_.times[static_cast<size_t>(id)].num_preemptions;
    ++result_.num_preemptions;
  }
  if (step.num_rows == 0) return;
  timer_.end_pass(step.num_rows, num_seqs_, result_.generated);
  if (chooser.on_device()) result_.host_seconds.push_back(chooser.host_seconds());
}

ServeResult ServedRequests::result() {
  const int64_t passes = result_.generated.counters.passes;
  if (passes > 0) result_.waste /= static_cast<double>(passes);
  return std::move(result_);
}

}  // namespace lesson08
