#pragma once

// What every engine does around its passes, and no lesson teaches: check the requests, turn a row
// of logits into the next token, tell the caller, and know when a request is finished.

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/model/config.h"
#include "common/model/engine.h"
#include "common/model/pass.h"

namespace kv {

/// Tokens of a request that go through the model: the prompt and every generated token but the
/// last, whose successor nobody asks for. 0 if nothing is generated.
int64_t tokens_to_compute(const Request& request);

/// Throws UserError, naming the request, for an empty prompt, a token id outside the vocabulary,
/// bad sampling parameters, a negative max_tokens, or more tokens than the model has positions for.
void check_requests(std::span<const Request> requests, const ModelConfig& config);

/// Throws UserError, with both numbers, if a request computes more than max_seq_len tokens (0: no
/// limit).
void check_seq_len_limit(std::span<const Request> requests, int max_seq_len);

/// n samples of one request, as requests of their own: they differ in sample_index. Throws
/// UserError unless n is at least 1.
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

/// The requests of one generate() on their way. Borrows the requests and the callback.
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

  /// The request ends as it is.
  void cancel(size_t request);

  /// Hands over the results, in request order.
  std::vector<Completion> completions();

 protected:
  /// The next token of a request, without a look at logits: the digest does not cover it.
  void append(size_t request, int32_t token);

 private:
  struct Sequence {
    std::vector<int32_t> tokens;
    LogitsDigest digest;
    FinishReason finish = FinishReason::kLength;
    bool active = false;
  };

  std::span<const Request> requests_;
  const TokenCallback* on_token_;
  std::vector<Sequence> sequences_;
  size_t num_active_ = 0;
};

}  // namespace kv
