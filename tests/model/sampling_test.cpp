#include "qwen3/sampling.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "common/error.h"
#include "qwen3/generation.h"

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// How often each token was drawn.
std::map<int32_t, int> draw(const std::vector<float>& logits, const kv::SamplingParams& params,
                            int n) {
  std::map<int32_t, int> counts;
  for (int i = 0; i < n; ++i) ++counts[kv::sample(logits, params, static_cast<uint64_t>(i))];
  return counts;
}

/// Logits of these probabilities.
std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> out;
  for (const double p : probabilities) out.push_back(static_cast<float>(std::log(p)));
  return out;
}

std::set<int32_t> tokens_of(const std::map<int32_t, int>& counts) {
  std::set<int32_t> out;
  for (const auto& [token, count] : counts) out.insert(token);
  return out;
}

kv::SamplingParams params(float temperature, int top_k = 0, float top_p = 1.0f, uint64_t seed = 7) {
  return {.temperature = temperature, .top_k = top_k, .top_p = top_p, .seed = seed};
}

}  // namespace

TEST_CASE("sampling: greedy takes the lowest index among the largest") {
  const std::vector<float> logits = {1, 4, 4, -kInf, 3};
  CHECK(kv::argmax(logits) == 1);
  CHECK(kv::sample(logits, params(0.0f), 9) == 1);
  CHECK(kv::sample(logits, params(0.0f, 2, 0.5f), 9) == 1);
  CHECK(kv::argmax(std::vector<float>{kNaN, -7, kNaN}) == 1);
}

TEST_CASE("sampling: follows the softmax of the logits over the temperature") {
  const std::vector<double> p = {0.5, 0.25, 0.15, 0.1};
  for (const float temperature : {1.0f, 0.5f, 2.0f}) {
    std::vector<double> want;
    double total = 0;
    for (const double x : p) total += std::pow(x, 1.0 / static_cast<double>(temperature));
    for (const double x : p) {
      want.push_back(std::pow(x, 1.0 / static_cast<double>(temperature)) / total);
    }
    const int n = 20000;
    std::map<int32_t, int> counts = draw(logits_of(p), params(temperature), n);
    for (int32_t t = 0; t < 4; ++t) {
      const double q = want[static_cast<size_t>(t)];
      const double sigma = std::sqrt(n * q * (1 - q));
      CHECK(std::abs(counts[t] - n * q) <= 4.5 * sigma);
    }
  }
}

TEST_CASE("sampling: a low temperature is greedy and a huge one is uniform") {
  const std::vector<float> logits = {0, 5, 4, -3};
  CHECK(tokens_of(draw(logits, params(1e-3f), 500)) == std::set<int32_t>{1});
  CHECK(tokens_of(draw(logits, params(1e-38f), 50)) == std::set<int32_t>{1});
  const std::map<int32_t, int> counts = draw(logits, params(1e30f), 4000);
  for (const auto& [token, count] : counts) CHECK(std::abs(count - 1000) <= 4.5 * std::sqrt(750.0));
  CHECK(counts.size() == 4);
}

TEST_CASE("sampling: top-k keeps the k most likely and the lower index among equals") {
  const std::vector<float> logits = {2, 3, 2, 2, 1};
  CHECK(tokens_of(draw(logits, params(1, 1), 200)) == std::set<int32_t>{1});
  CHECK(tokens_of(draw(logits, params(1, 2), 400)) == std::set<int32_t>{0, 1});
  CHECK(tokens_of(draw(logits, params(1, 3), 400)) == std::set<int32_t>{0, 1, 2});
  CHECK(tokens_of(draw(logits, params(1, 5), 2000)).size() == 5);
  CHECK(tokens_of(draw(logits, params(1, 1000), 2000)).size() == 5);
  CHECK(kv::sample(std::vector<float>{-3.0f}, params(0.7f, 5, 0.1f), 0) == 0);  // the only one
}

TEST_CASE("sampling: top-p keeps the smallest set that reaches it") {
  const std::vector<float> logits = logits_of({0.1, 0.4, 0.3, 0.2});
  CHECK(tokens_of(draw(logits, params(1, 0, 1e-6f), 300)) == std::set<int32_t>{1});
  CHECK(tokens_of(draw(logits, params(1, 0, 0.39f), 300)) == std::set<int32_t>{1});
  CHECK(tokens_of(draw(logits, params(1, 0, 0.41f), 600)) == std::set<int32_t>{1, 2});
  CHECK(tokens_of(draw(logits, params(1, 0, 0.69f), 600)) == std::set<int32_t>{1, 2});
  CHECK(tokens_of(draw(logits, params(1, 0, 0.71f), 600)) == std::set<int32_t>{1, 2, 3});
  CHECK(tokens_of(draw(logits, params(1, 0, 0.999f), 2000)).size() == 4);
  CHECK(tokens_of(draw(logits, params(1, 0, 1.0f), 2000)).size() == 4);
}

TEST_CASE("sampling: top-p counts the probability that top-k left") {
  // Of {0.4, 0.3}, the first has 57 %.
  const std::vector<float> logits = logits_of({0.1, 0.4, 0.3, 0.2});
  CHECK(tokens_of(draw(logits, params(1, 2, 0.55f), 400)) == std::set<int32_t>{1});
  CHECK(tokens_of(draw(logits, params(1, 2, 0.6f), 400)) == std::set<int32_t>{1, 2});
}

TEST_CASE("sampling: among equal logits top-p goes by index") {
  const std::vector<float> logits(8, 1.25f);
  CHECK(tokens_of(draw(logits, params(1, 0, 0.25f), 300)) == std::set<int32_t>{0, 1});
}

TEST_CASE("sampling: a token of probability zero is never drawn") {
  const std::vector<float> logits = {-kInf, 0, -kInf, -1e30f, 0};
  CHECK(tokens_of(draw(logits, params(1), 2000)) == std::set<int32_t>{1, 4});
}

TEST_CASE("sampling: a draw depends on seed, sample and step and on nothing else") {
  const std::vector<float> logits(1000, 0.0f);
  const auto draw_one = [&](uint64_t seed, int sample_index, uint64_t step) {
    return kv::sample(logits, {.temperature = 1, .seed = seed, .sample_index = sample_index}, step);
  };
  CHECK(draw_one(1, 2, 3) == draw_one(1, 2, 3));
  const std::set<int32_t> seen{draw_one(1, 2, 3), draw_one(2, 2, 3), draw_one(1, 3, 3),
                               draw_one(1, 2, 4), draw_one(1, 3, 2)};  // not symmetric
  CHECK(seen.size() == 5);
}

TEST_CASE("sampling: the first tokens of neighbouring seeds and samples are uniform") {
  const std::vector<float> logits(10, 0.0f);
  std::map<int32_t, int> by_seed, by_sample;
  for (int i = 0; i < 5000; ++i) {
    ++by_seed[kv::sample(logits, {.temperature = 1, .seed = static_cast<uint64_t>(i)}, 0)];
    ++by_sample[kv::sample(logits, {.temperature = 1, .seed = 7, .sample_index = i}, 0)];
  }
  for (int32_t t = 0; t < 10; ++t) {
    CHECK(std::abs(by_seed[t] - 500) <= 4.5 * std::sqrt(450.0));
    CHECK(std::abs(by_sample[t] - 500) <= 4.5 * std::sqrt(450.0));
  }
}

TEST_CASE("sampling: parameters out of range are refused by name") {
  CHECK_THROWS_AS(kv::validate(params(-0.1f)), kv::UserError);
  CHECK_THROWS_AS(kv::validate(params(kNaN)), kv::UserError);
  CHECK_THROWS_AS(kv::validate(params(kInf)), kv::UserError);
  CHECK_THROWS_AS(kv::validate(params(1, -1)), kv::UserError);
  CHECK_THROWS_AS(kv::validate(params(1, 0, 0.0f)), kv::UserError);
  CHECK_THROWS_AS(kv::validate(params(1, 0, 1.01f)), kv::UserError);
  CHECK_THROWS_AS(kv::validate(params(1, 0, kNaN)), kv::UserError);
  CHECK_THROWS_AS(kv::validate({.sample_index = -1}), kv::UserError);
  CHECK_NOTHROW(kv::validate(params(0)));
  CHECK_NOTHROW(kv::validate(params(2.5f, 3, 1e-9f)));
  CHECK_THROWS_AS(kv::sample(std::vector<float>{1, 2}, params(-1), 0), kv::UserError);
}

TEST_CASE("sampling: logits that are not numbers are refused and the first one is named") {
  for (const float temperature : {0.0f, 1.0f}) {
    CHECK_THROWS_WITH_AS(
        kv::sample(std::vector<float>{1, 2, kNaN}, params(temperature), 0),
        "logit 2 is nan, wanted a number; the model's weights are damaged or overflow",
        kv::UserError);
    CHECK_THROWS_AS(kv::sample(std::vector<float>{1, kInf}, params(temperature), 0), kv::UserError);
    CHECK_THROWS_AS(kv::sample(std::vector<float>{-kInf, -kInf}, params(temperature), 0),
                    kv::UserError);
  }
}

TEST_CASE("log probabilities: the token's own, then the likeliest, the lowest id among equals") {
  const std::vector<float> logits = {0.5f, 2.0f, -1.0f, 2.0f};
  const std::vector<double> all = kv::log_softmax(logits);
  const auto entry = [&](int32_t id) {
    return kv::TokenLogprob{id, static_cast<float>(all[static_cast<size_t>(id)])};
  };
  CHECK(kv::logprobs_of(logits, 2, 0) == std::vector<kv::TokenLogprob>{entry(2)});
  CHECK(kv::logprobs_of(logits, 2, 3) ==
        std::vector<kv::TokenLogprob>{entry(2), entry(1), entry(3), entry(0)});
  CHECK(kv::logprobs_of(logits, 1, 9).size() == 5);  // no more than there are
  kv::Request request;
  request.max_tokens = 2;
  request.num_logprobs = 1;
  kv::TokenStream stream(request);
  CHECK(stream.draw(logits) == 1);
  CHECK(stream.logprobs() == kv::logprobs_of(logits, 1, 1));
}
