#include "programs/serving.h"

#include <algorithm>
#include <stdexcept>

namespace kv {

ServedRequests::ServedRequests(std::span<const Request> requests, std::span<const Arrival> arrivals)
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
    if (follows_sample(requests, i)) ++arrivals_[i].pass;
    const bool generates = requests[i].max_tokens > 0;
    if (generates) to_come_.push_back(i);
    result_.generated.completions.push_back(
        {.tokens = {},
         .logits_xxh64 = LogitsDigest().value(),
         .finish = generates ? FinishReason::kCancelled : FinishReason::kLength});
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

void ServedRequests::note_hit(int num_tokens) {
  result_.generated.counters.by_name["cache_hit_tokens"] += num_tokens;
}

void ServedRequests::note_blocks(int64_t num_blocks, int64_t num_slots, int64_t num_slots_used) {
  result_.generated.counters.note_peak("blocks_in_use", num_blocks);
  const auto empty = static_cast<double>(num_slots - num_slots_used);
  result_.waste += empty / static_cast<double>(num_slots);
}

bool ServedRequests::note_token(const NewToken& token, const TokenCallback& on_token) {
  const auto i = static_cast<size_t>(token.id);
  if (cancelled_[i]) {
    cut_[i] = true;
    return false;
  }
  Completion& completion = result_.generated.completions[i];
  completion.tokens.push_back(token.token);
  completion.logits_xxh64 = token.logits_xxh64;
  RequestTimes& times = result_.times[i];
  times.ended = now();
  if (times.first_token == 0) times.first_token = times.ended;
  cancelled_[i] = on_token && !on_token(i, token.token);
  return !cancelled_[i];
}

void ServedRequests::note_step(const StepOutput& step) {
  for (const EndedRequest& ended : step.ended) {
    const auto i = static_cast<size_t>(ended.id);
    if (!cut_[i]) result_.generated.completions[i].finish = ended.reason;
  }
  for (const int64_t id : step.preempted) {
    ++times_of(id).num_preemptions;
    ++result_.num_preemptions;
  }
  if (step.num_rows == 0) return;
  timer_.end_pass(step.num_rows, num_seqs_, result_.generated);
}

ServeResult ServedRequests::result() {
  const int64_t passes = result_.generated.counters.passes;
  if (passes > 0) result_.waste /= static_cast<double>(passes);
  return std::move(result_);
}

}  // namespace kv
