#include "qwen3/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/error.h"

namespace kv {
namespace {

/// SplitMix64's mixing function: every bit of the input changes every bit of the output.
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// A number in [0, 1) that depends on (seed, sample_index, step) alone: there is no state to lose.
double uniform(const SamplingParams& params, uint64_t step) {
  const uint64_t bits =
      mix(mix(mix(params.seed) ^ static_cast<uint64_t>(params.sample_index)) ^ step);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

struct Candidate {
  float logit;
  int32_t id;
  double weight;  // its probability, up to a factor that all candidates share
};

/// Most likely first; the lower id first among equals, so that the order is total.
bool more_likely(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}
bool less_likely(const Candidate& a, const Candidate& b) { return more_likely(b, a); }
bool lower_id(const Candidate& a, const Candidate& b) { return a.id < b.id; }

/// Leaves the k most likely candidates. Ascending ids again, so that sums over them have one order.
void keep_top_k(std::vector<Candidate>& all, int k) {
  if (k == 0 || static_cast<size_t>(k) >= all.size()) return;
  std::nth_element(all.begin(), all.begin() + k, all.end(), more_likely);
  all.resize(static_cast<size_t>(k));
  std::sort(all.begin(), all.end(), lower_id);
}

/// Leaves the smallest number of most likely candidates whose share of all weights reaches top_p.
void keep_top_p(std::vector<Candidate>& all, double top_p) {
  if (top_p >= 1.0) return;
  double total = 0;
  for (const Candidate& c : all) total += c.weight;
  // A heap gives the most likely ones first; often a few of them are enough.
  std::make_heap(all.begin(), all.end(), less_likely);
  std::vector<Candidate> kept;
  double kept_weight = 0;
  while (!all.empty() && (kept.empty() || kept_weight < top_p * total)) {
    std::pop_heap(all.begin(), all.end(), less_likely);
    kept.push_back(all.back());
    all.pop_back();
    kept_weight += kept.back().weight;
  }
  all = std::move(kept);
}

/// The largest logit. Throws UserError if a logit is NaN or +inf, or if all are -inf.
float checked_maximum(std::span<const float> logits) {
  float largest = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == std::numeric_limits<float>::infinity()) {
      user_error("logit {} is {}, wanted a number; the model's weights are damaged or overflow", i,
                 logits[i]);
    }
    largest = std::max(largest, logits[i]);
  }
  if (largest == -std::numeric_limits<float>::infinity()) {
    user_error("all {} logits are -inf, wanted a number; the model's weights are damaged",
               logits.size());
  }
  return largest;
}

}  // namespace

void validate(const SamplingParams& params) {
  if (!(params.temperature >= 0.0f) || std::isinf(params.temperature)) {
    user_error("temperature: found {}, wanted 0 (greedy) or a positive number", params.temperature);
  }
  if (params.top_k < 0) {
    user_error("top-k: found {}, wanted 0 (all tokens) or a positive number", params.top_k);
  }
  if (!(params.top_p > 0.0f && params.top_p <= 1.0f)) {
    user_error("top-p: found {}, wanted a number above 0 and up to 1", params.top_p);
  }
  if (params.sample_index < 0) {
    user_error("sample_index: found {}, wanted 0 or more", params.sample_index);
  }
}

int32_t argmax(std::span<const float> logits) {
  size_t best = 0;
  for (size_t i = 1; i < logits.size(); ++i) {
    // A NaN loses against every number.
    if (logits[i] > logits[best] || (std::isnan(logits[best]) && !std::isnan(logits[i]))) best = i;
  }
  return static_cast<int32_t>(best);
}

std::vector<double> log_softmax(std::span<const float> logits) {
  const auto largest = static_cast<double>(checked_maximum(logits));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  const double log_sum = largest + std::log(sum);
  std::vector<double> log_probs;
  for (const float logit : logits) log_probs.push_back(static_cast<double>(logit) - log_sum);
  return log_probs;
}

std::vector<TokenLogprob> logprobs_of(std::span<const float> logits, int32_t token, int num_top) {
  const std::vector<double> all = log_softmax(logits);
  const auto entry = [&](int32_t id) {
    return TokenLogprob{id, static_cast<float>(all[static_cast<size_t>(id)])};
  };
  std::vector<int32_t> ids(all.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto end = ids.begin() + std::min<std::ptrdiff_t>(num_top, std::ssize(ids));
  std::partial_sort(ids.begin(), end, ids.end(), [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  std::vector<TokenLogprob> logprobs{entry(token)};
  for (auto id = ids.begin(); id != end; ++id) logprobs.push_back(entry(*id));
  return logprobs;
}

int32_t sample(std::span<const float> logits, const SamplingParams& params, uint64_t step) {
  validate(params);
  if (logits.empty()) throw std::logic_error("sample: no logits");
  const float largest = checked_maximum(logits);
  if (params.temperature == 0.0f) return argmax(logits);

  std::vector<Candidate> candidates(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    const double distance = static_cast<double>(logits[i]) - static_cast<double>(largest);
    candidates[i] = {logits[i], static_cast<int32_t>(i),
                     std::exp(distance / static_cast<double>(params.temperature))};
  }
  keep_top_k(candidates, params.top_k);
  keep_top_p(candidates, static_cast<double>(params.top_p));

  double total = 0;
  for (const Candidate& c : candidates) total += c.weight;
  const double target = uniform(params, step) * total;
  double sum = 0;
  int32_t chosen = 0;
  for (const Candidate& c : candidates) {
    if (c.weight == 0) continue;  // cannot be drawn, not even if the product above was rounded up
    chosen = c.id;
    sum += c.weight;
    if (target < sum) break;
  }
  return chosen;
}

}  // namespace kv
