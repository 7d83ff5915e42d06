#pragma once

// Work around the passes, the same in every engine and taught by no lesson: check the requests,
// turn a row of logits into the next token, tell the caller, and know when a request is finished.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "qwen3/config.h"
#include "qwen3/engine.h"
#include "qwen3/pass.h"

namespace kv {

/// Tokens of a request that go through the model: the prompt and every generated token but the
/// last, because no token is drawn after that one. 0 if nothing is generated.
int64_t tokens_to_compute(const Request& request);

/// Throws UserError, naming the request by its number, for an empty prompt, a token id outside the
/// vocabulary, bad sampling parameters, a negative max_tokens, or more tokens than the model has
/// positions for.
void check_request(const Request& request, int64_t number, const ModelConfig& config);
void check_requests(std::span<const Request> requests, const ModelConfig& config);

/// Throws UserError, with both numbers, if a request computes more than max_seq_len tokens. 0 means
/// no limit.
void check_seq_len_limit(const Request& request, int64_t number, int max_seq_len);
void check_seq_len_limit(std::span<const Request> requests, int max_seq_len);

/// n samples of one request, as n requests that differ in sample_index. Throws UserError unless n
/// is at least 1.
std::vector<Request> samples_of(const Request& request, int n);

/// True if requests[i] is a further sample of the prompt of the one before it, which computes it.
bool follows_sample(std::span<const Request> requests, size_t i);

/// Times the passes of one generate() and counts their rows.
class PassTimer {
 public:
  PassTimer() : start_(Clock::now()), last_(start_) {}
  /// Call after each pass: fills result.passes and result.counters.
  void end_pass(int rows, int sequences, GenerateResult& result);

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_;
  Clock::time_point last_;
};

/// A request's next tokens, drawn one after the other. The request need not outlive it.
class TokenStream {
 public:
  explicit TokenStream(const Request& request);

  /// Digests the logits after the last token and draws the next one from them.
  int32_t draw(std::span<const float> logits);
  /// Counts a token, drawn here or chosen elsewhere. Returns why the request ends with it; empty if
  /// it goes on.
  std::optional<FinishReason> add(int32_t token);
  /// Digest of all logits that tokens were drawn from, in order.
  uint64_t logits_xxh64() const { return digest_.value(); }
  /// Log probabilities of the token drawn last, as logprobs_of() returns them; empty if the request
  /// wants none.
  const std::vector<TokenLogprob>& logprobs() const { return logprobs_; }

 private:
  SamplingParams sampling_;
  std::vector<int32_t> stop_token_ids_;
  int min_tokens_, max_tokens_, num_logprobs_;
  int num_tokens_ = 0;
  std::vector<TokenLogprob> logprobs_;
  LogitsDigest digest_;
};

/// The state of the requests of one generate(). Borrows the requests and the callback.
class Generation {
 public:
  /// Checks the requests first (check_requests).
  Generation(std::span<const Request> requests, const ModelConfig& config,
             const TokenCallback& on_token);

  size_t size() const { return sequences_.size(); }
  bool active(size_t request) const { return sequences_[request].active; }
  bool any_active() const { return num_active_ > 0; }

  /// Tokens known: the prompt and what has been generated.
  std::span<const int32_t> tokens(size_t request) const { return sequences_[request].tokens; }

  /// The logits after the last known token: digests them, draws the next token, and calls back.
  /// The request is no longer active if this was its last token.
  void accept(size_t request, std::span<const float> logits);
  /// The same for all requests of a pass. `logits` is [logit rows, vocab].
  void accept(const PassRows& rows, std::span<const float> logits);

  /// Ends the request with the tokens it has.
  void cancel(size_t request);

  /// Hands over the results, in request order.
  std::vector<Completion> completions();

 protected:
  /// The next token of a request, without a look at logits: the digest does not cover it.
  void append(size_t request, int32_t token);

 private:
  struct Sequence {
    std::vector<int32_t> tokens;
    TokenStream stream;
    FinishReason finish = FinishReason::kLength;
    bool active = false;
  };

  std::span<const Request> requests_;
  const TokenCallback* on_token_;
  std::vector<Sequence> sequences_;
  size_t num_active_ = 0;
};

}  // namespace kv
