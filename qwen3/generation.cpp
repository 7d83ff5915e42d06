#include "qwen3/generation.h"

#include <algorithm>
#include <limits>

#include "common/error.h"
#include "common/table.h"

namespace kv {

int64_t tokens_to_compute(const Request& request) {
  if (request.max_tokens <= 0) return 0;
  return static_cast<int64_t>(request.prompt.size()) + request.max_tokens - 1;
}

void check_request(const Request& request, int64_t index, const ModelConfig& config) {
  if (request.prompt.empty()) {
    user_error("request {}: the prompt has no tokens, wanted at least one", index);
  }
  if (request.max_tokens < 0) {
    user_error("request {}: max_tokens is {}, wanted 0 or more", index, request.max_tokens);
  }
  if (request.min_tokens < 0 || request.min_tokens > request.max_tokens) {
    user_error("request {}: min_tokens is {}, wanted 0 to max_tokens, which is {}", index,
               request.min_tokens, request.max_tokens);
  }
  for (const int32_t token : request.prompt) {
    if (token < 0 || token >= config.vocab_size) {
      user_error("request {}: token id {} is not in the vocabulary of {} tokens", index, token,
                 config.vocab_size);
    }
  }
  validate(request.sampling);
  const int64_t wanted = tokens_to_compute(request);
  if (wanted > config.max_position_embeddings) {
    user_error(
        "request {}: a prompt of {} and {} to generate need {}, the model has {}; shorten the "
        "prompt or generate fewer tokens",
        index, count_of(std::ssize(request.prompt), "token"), request.max_tokens,
        count_of(wanted, "position"), with_commas(config.max_position_embeddings));
  }
}

void check_requests(std::span<const Request> requests, const ModelConfig& config) {
  for (int64_t i = 0; i < std::ssize(requests); ++i) {
    check_request(requests[i], i, config);
  }
}

void check_seq_len_limit(const Request& request, int64_t index, int max_seq_len) {
  const int64_t wanted = tokens_to_compute(request);
  if (max_seq_len == 0 || wanted <= max_seq_len) return;
  user_error(
      "request {}: a prompt of {} and {} to generate need room for {}, but --max-seq-len is {}; "
      "shorten the prompt, generate fewer tokens, or raise it",
      index, count_of(std::ssize(request.prompt), "token"), request.max_tokens,
      count_of(wanted, "token"), max_seq_len);
}

void check_seq_len_limit(std::span<const Request> requests, int max_seq_len) {
  for (int64_t i = 0; i < std::ssize(requests); ++i) {
    check_seq_len_limit(requests[i], i, max_seq_len);
  }
}

std::vector<Request> samples_of(const Request& request, int n) {
  if (n < 1) user_error("n: found {}, wanted at least 1 sample", n);
  std::vector<Request> samples(n, request);
  for (int i = 0; i < n; ++i) samples[i].sampling.sample_index = i;
  return samples;
}

bool follows_sample(std::span<const Request> requests, size_t i) {
  const Request& request = requests[i];
  return i > 0 && request.sampling.sample_index > 0 && request.max_tokens > 0 &&
         requests[i - 1].max_tokens > 0 && request.prompt == requests[i - 1].prompt;
}

void PassTimer::end_pass(int rows, int sequences, GenerateResult& result) {
  const auto now = Clock::now();
  const std::chrono::duration<double> pass = now - last_;
  const std::chrono::duration<double> all = now - start_;
  last_ = now;
  result.passes.push_back({.rows = rows, .seconds = pass.count()});
  result.counters.passes += 1;
  result.counters.kv_rows_computed += rows;
  result.counters.max_sequences = std::max<int64_t>(result.counters.max_sequences, sequences);
  result.counters.seconds = all.count();
}

TokenStream::TokenStream(const Request& request)
    : sampling_(request.sampling),
      stop_token_ids_(request.stop_token_ids),
      min_tokens_(request.min_tokens),
      max_tokens_(request.max_tokens),
      num_logprobs_(request.num_logprobs) {}

int32_t TokenStream::draw(std::span<const float> logits) {
  digest_.add(logits);
  const std::span<const float> all = logits;
  std::vector<float> without_stops;
  if (num_tokens_ < min_tokens_) {
    without_stops.assign(logits.begin(), logits.end());
    for (const int32_t stop : stop_token_ids_) {
      if (stop < 0 || static_cast<size_t>(stop) >= logits.size()) continue;
      without_stops[stop] = -std::numeric_limits<float>::infinity();
    }
    logits = without_stops;
  }
  const int32_t token = sample(logits, sampling_, static_cast<uint64_t>(num_tokens_));
  if (num_logprobs_ >= 0) logprobs_ = logprobs_of(all, token, num_logprobs_);
  return token;
}

std::optional<FinishReason> TokenStream::add(int32_t token) {
  ++num_tokens_;
  if (std::ranges::find(stop_token_ids_, token) != stop_token_ids_.end()) {
    return FinishReason::kStop;
  }
  if (num_tokens_ == max_tokens_) return FinishReason::kLength;
  return std::nullopt;
}

Generation::Generation(std::span<const Request> requests, const ModelConfig& config,
                       const TokenCallback& on_token)
    : requests_(requests), on_token_(&on_token) {
  check_requests(requests, config);
  for (const Request& request : requests) {
    const bool active = request.max_tokens > 0;
    sequences_.push_back(
        {.tokens = request.prompt, .stream = TokenStream(request), .active = active});
    if (active) ++num_active_;
  }
}

void Generation::accept(size_t request, std::span<const float> logits) {
  append(request, sequences_[request].stream.draw(logits));
}

void Generation::append(size_t request, int32_t token) {
  Sequence& sequence = sequences_[request];
  sequence.tokens.push_back(token);
  const bool go_on = !*on_token_ || (*on_token_)(request, token);
  std::optional<FinishReason> finish = sequence.stream.add(token);
  if (!finish && !go_on) finish = FinishReason::kCancelled;
  if (!finish) return;
  sequence.finish = *finish;
  sequence.active = false;
  --num_active_;
}

void Generation::accept(const PassRows& rows, std::span<const float> logits) {
  const size_t vocab = logits.size() / std::max<size_t>(1, rows.logit_rows.size());
  for (size_t i = 0; i < rows.requests.size(); ++i) {
    accept(rows.requests[i], logits.subspan(i * vocab, vocab));
  }
}

void Generation::cancel(size_t request) {
  Sequence& sequence = sequences_[request];
  if (!sequence.active) return;
  sequence.finish = FinishReason::kCancelled;
  sequence.active = false;
  --num_active_;
}

std::vector<Completion> Generation::completions() {
  std::vector<Completion> all;
  for (size_t i = 0; i < sequences_.size(); ++i) {
    Sequence& sequence = sequences_[i];
    const auto prompt_tokens = static_cast<std::ptrdiff_t>(requests_[i].prompt.size());
    all.push_back({.tokens = {sequence.tokens.begin() + prompt_tokens, sequence.tokens.end()},
                   .logits_xxh64 = sequence.stream.logits_xxh64(),
                   .finish = sequence.finish});
  }
  return all;
}

}  // namespace kv
