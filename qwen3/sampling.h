#pragma once

// From logits to the next token.

#include <cstdint>
#include <span>
#include <vector>

namespace kv {

struct SamplingParams {
  float temperature = 0.0f;  // 0 means greedy
  int top_k = 0;             // 0 means all tokens
  float top_p = 1.0f;        // smallest set of tokens whose probability reaches top_p
  // These two and the token's number decide each draw:
  uint64_t seed = 0;
  int sample_index = 0;  // among the samples of one request
};

/// Throws UserError if a value is out of range (temperature < 0 or NaN, top_k < 0, top_p not in
/// (0,1], sample_index < 0).
void validate(const SamplingParams& params);

/// Index of the largest logit; the lowest index among equals.
int32_t argmax(std::span<const float> logits);

/// log softmax of one row, in double, summed in index order. Throws UserError if a logit is no
/// number.
std::vector<double> log_softmax(std::span<const float> logits);

/// A token and the logarithm of its probability, before temperature, top_k and top_p.
struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;
  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

/// `token`, then the num_top most likely tokens (it may be one of them), the most likely one first
/// and the lowest id among equals.
std::vector<TokenLogprob> logprobs_of(std::span<const float> logits, int32_t token, int num_top);

/// Draws token number `step` of a request. The random number depends only on (seed, sample_index,
/// step). So a request gets the same tokens in every lesson and at every place in a batch, also
/// after a fork or a preemption.
int32_t sample(std::span<const float> logits, const SamplingParams& params, uint64_t step);

}  // namespace kv
