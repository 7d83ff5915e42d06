#include "served_requests.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "common/base/error.h"
#include "common/base/table.h"
#include "kernels/argmax.h"

namespace lesson08 {

ServedRequests::ServedRequests(std::span<const kv::Request> requests,
                               std::span<const Arrival> arrivals, const kv::TokenCallback& on_token,
                               kv::Model& model, const ServeOptions& options)
    : requests_(requests),
      arrivals_(arrivals),
      model_(&model),
      choose_on_device_(options.choose_on_device),
      on_token_([this, &on_token](size_t i, int32_t token) {
        if (result_.times[i].first_token == 0) result_.times[i].first_token = now();
        return !on_token || on_token(i, token);
      }),
      generation_(requests, model.config(), on_token_) {
  if (!arrivals.empty() && arrivals.size() != requests.size()) {
    throw std::invalid_argument("serve: wanted an arrival for each request, or none");
  }
  result_.times.resize(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    if (generation_.active(i)) to_come_.push_back(i);
    const kv::Request& request = requests[i];
    const bool masks = request.min_tokens > 0 && !request.stop_token_ids.empty();
    if (!choose_on_device_ || (request.sampling.temperature == 0 && !masks)) continue;
    kv::user_error(
        "request {} has temperature {} and wants at least {}; the device chooses the "
        "largest logit, wanted 0 and 0",
        i, request.sampling.temperature, kv::count_of(request.min_tokens, "token"));
  }
  std::ranges::stable_sort(to_come_, {}, [&](size_t i) { return arrival_of(i).pass; });
}

/// A further sample comes a pass after the others, so that it finds its prompt.
Arrival ServedRequests::arrival_of(size_t i) const {
  Arrival arrival = arrivals_.empty() ? Arrival{} : arrivals_[i];
  if (kv::follows_sample(requests_, i)) ++arrival.pass;
  return arrival;
}

double ServedRequests::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void ServedRequests::check(const Scheduler& scheduler) const {
  for (const size_t i : to_come_) {
    scheduler.check_fits(static_cast<int64_t>(i), requests_[i].prompt.size(),
                         requests_[i].max_tokens);
  }
}

bool ServedRequests::submit_arrivals(Scheduler& scheduler) {
  if (pass_ < 0) {
    timer_ = {};
    device_done_ = now();
  }
  const bool all_came = num_submitted_ == to_come_.size();
  if (all_came && scheduler.idle()) return false;
  ++pass_;
  if (scheduler.idle()) pass_ = std::max(pass_, arrival_of(to_come_[num_submitted_]).pass);
  for (; num_submitted_ < to_come_.size(); ++num_submitted_) {
    const size_t i = to_come_[num_submitted_];
    if (arrival_of(i).pass > pass_) break;
    result_.times[i].arrived = now();
    scheduler.submit(static_cast<int64_t>(i), requests_[i].prompt, requests_[i].max_tokens,
                     {.priority = arrival_of(i).priority});
  }
  return true;
}

void ServedRequests::cancel_all() {
  for (size_t i = 0; i < requests_.size(); ++i) generation_.cancel(i);
}

void ServedRequests::note_start(const Scheduler& scheduler, const SchedulerOutput& output) {
  int64_t& hits = result_.generated.counters.by_name["cache_hit_tokens"];
  for (const int64_t id : output.resumed) hits += scheduler.request(id).num_cached;
  for (const int64_t id : output.started) {
    hits += scheduler.request(id).num_cached;
    result_.times[static_cast<size_t>(id)].num_cached_tokens = scheduler.request(id).num_cached;
  }
}

void ServedRequests::compute(const kv::PassRows& rows, kv::Attention& attention,
                             const OnChosen& on_chosen) {
  if (!choose_on_device_) {
    logits_ = model_->forward(rows, attention);
    return;
  }
  model_->launch(rows, attention);
  result_.host_seconds.push_back(now() - device_done_);
  choose_on_device(rows.requests.size(), on_chosen);
  device_done_ = now();
}

/// The token with the largest logit, for the first rows of logits.
void ServedRequests::choose_on_device(size_t num_rows, const OnChosen& on_chosen) {
  chosen_.resize(num_rows);
  if (num_rows == 0) return;
  if (device_chosen_.bytes() < num_rows * sizeof(int32_t)) {
    device_chosen_ = kv::DeviceBuffer(model_->device(), 2 * num_rows * sizeof(int32_t));
  }
  kv::argmax({.logits = model_->device_logits(),
              .num_rows = static_cast<int>(num_rows),
              .vocab_size = model_->config().vocab_size,
              .out = device_chosen_.as<int32_t>()},
             model_->stream());
  on_chosen(device_chosen_.as<int32_t>());
  kv::copy_to_host(chosen_.data(), device_chosen_.data(), num_rows * sizeof(int32_t),
                   model_->stream());
}

void ServedRequests::choose_token(const kv::PassRows& rows, size_t logit_row) {
  const size_t i = rows.requests[logit_row];
  if (choose_on_device_) {
    const int32_t token = chosen_[logit_row];
    if (token >= 0) return generation_.append(i, token);
    throw std::logic_error(
        fmt::format("request {} wants the token of row {}, and the device has none", i, logit_row));
  }
  const size_t vocab = logits_.size() / rows.logit_rows.size();
  generation_.accept(i, logits_.subspan(logit_row * vocab, vocab));
}

void ServedRequests::note_blocks(const KvCacheManager& manager,
                                 const lesson03::PagedKvCache& cache) {
  kv::EngineCounters& counters = result_.generated.counters;
  const int64_t used = manager.pool().num_used();
  const int64_t slots = used * manager.block_size();
  const int64_t filled = manager.num_slots_used();
  int64_t& most_blocks = counters.by_name["blocks_in_use"];
  most_blocks = std::max(most_blocks, used);
  result_.waste += static_cast<double>(slots - filled) / static_cast<double>(slots);
  kv::note_kv_bytes(counters, used * cache.bytes_per_block(), filled * cache.bytes_per_token());
}

void ServedRequests::note_end(const kv::PassRows& rows, const SchedulerOutput& output,
                              Scheduler& scheduler, const lesson03::PagedKvCache& cache) {
  note_blocks(scheduler.manager(), cache);
  for (size_t row = 0; row < rows.requests.size(); ++row) {
    const size_t i = rows.requests[row];
    const auto id = static_cast<int64_t>(i);
    if (!generation_.active(i) || !scheduler.wants_token(id)) continue;  // for its earlier rows
    choose_token(rows, row);
    if (generation_.active(i)) {
      scheduler.add_token(id, generation_.tokens(i).back());
      continue;
    }
    result_.times[i].num_preemptions = scheduler.request(id).num_preemptions;
    result_.times[i].ended = now();
    scheduler.finish(id);
  }
  // Padding comes last, and does not count.
  const size_t num_seqs = output.chunks.size();
  timer_.end_pass(rows.first_row[num_seqs], static_cast<int>(num_seqs), result_.generated);
}

ServeResult ServedRequests::result(const Scheduler& scheduler) {
  ServeResult result = std::move(result_);
  result.num_preemptions = scheduler.num_preemptions();
  if (const int64_t passes = result.generated.counters.passes; passes > 0) {
    result.waste /= static_cast<double>(passes);
  }
  result.generated.completions = generation_.completions();
  return result;
}

}  // namespace lesson08
