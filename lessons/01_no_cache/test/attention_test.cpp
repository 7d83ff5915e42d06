// Both kernels of lesson 01 on the CPU, and the arithmetic contract that the fast one keeps.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "causal_attention.h"
#include "common/device.h"
#include "kernels/attention/attend.h"
#include "kernels/exp.h"
#include "tests/support/naive_attention.h"

constexpr auto kDevice = kv::Device::kCpu;
#include "attention_cases.h"

namespace {

using kvtest::random_floats;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Checks the sums that add_key() has made of the keys so far.
void check_sum(const lesson01::OnlineSoftmax& sum, double m, double l, double acc0, double acc1) {
  CHECK(sum.m == doctest::Approx(m));
  CHECK(sum.l == doctest::Approx(l));
  CHECK(sum.acc[0] == doctest::Approx(acc0));
  CHECK(sum.acc[1] == doctest::Approx(acc1));
}

}  // namespace

TEST_CASE("a score is the scaled dot product") {
  const float q[] = {1.0f, 2.0f, 3.0f, 4.0f}, k[] = {10.0f, 0.0f, 100.0f, 1.0f};
  CHECK(lesson01::score_of(q, k, 4, 0.5f) == 157.0f);  // (10 + 0 + 300 + 4) / 2
  CHECK(lesson01::score_of(q, k, 3, 0.5f) == 155.0f);  // of a shorter head
}

TEST_CASE("a score is summed from the first element to the last") {
  const float q[] = {1e8f, 1.0f, -1e8f, 1.0f}, k[] = {1.0f, 1.0f, 1.0f, 1.0f};
  CHECK(lesson01::score_of(q, k, 4, 1.0f) == 1.0f);  // 1e8 + 1 is 1e8 in 32 bits; backwards: 0
  std::vector<float> many(64);  // each product is rounded, then added to one sum
  for (size_t d = 0; d < many.size(); ++d) many[d] = 1.0f + 0.01f * static_cast<float>(d);
  float sum = 0.0f;
  for (const float x : many) sum += x * x;
  CHECK(lesson01::score_of(many.data(), many.data(), 64, 1.0f) == sum);
}

TEST_CASE("a score is scaled once, after the sum") {
  const float ones[] = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f};
  // 0.1 eight times is 0.80000007 in 32 bits.
  CHECK(lesson01::score_of(ones, ones, 8, 0.1f) - 0.8f == 0.0f);
}

TEST_CASE("the first key has weight 1") {
  const float v[] = {10.0f, -3.0f, 99.0f};  // 99 is the next head's
  for (const float score : {2.0f, 0.0f, -700.0f, 700.0f}) {
    CAPTURE(score);
    lesson01::OnlineSoftmax sum{.m = -INFINITY, .l = 0.0f, .acc = {}};
    lesson01::add_key(sum, score, v, 2);
    check_sum(sum, score, 1.0, 10.0, -3.0);
    CHECK(sum.acc[2] == 0.0f);
  }
}

TEST_CASE("a smaller score is weighed against the largest") {
  const float first[] = {10.0f, 0.0f}, second[] = {100.0f, 40.0f}, large[] = {3e5f, 0.0f};
  lesson01::OnlineSoftmax sum{.m = -INFINITY, .l = 0.0f, .acc = {}};
  lesson01::add_key(sum, 3.0f, first, 2);
  lesson01::add_key(sum, 3.0f - std::log(4.0f), second, 2);  // exp(score - m) is 1/4
  check_sum(sum, 3.0, 1.25, 10.0 + 25.0, 10.0);
  lesson01::add_key(sum, 3.0f, second, 2);  // just the largest
  check_sum(sum, 3.0, 1.25 + 1.0, 35.0 + 100.0, 10.0 + 40.0);
  lesson01::add_key(sum, 3.0f - std::log(1e5f), large, 2);  // little of much counts, too
  check_sum(sum, 3.0, 2.25 + 1e-5, 135.0 + 3.0, 50.0);
}

TEST_CASE("a larger score shrinks what was summed before it") {
  const float first[] = {100.0f, 40.0f}, second[] = {10.0f, 0.0f}, third[] = {1.0f, 1.0f, 7.0f};
  lesson01::OnlineSoftmax sum{.m = -INFINITY, .l = 0.0f, .acc = {}};
  lesson01::add_key(sum, 3.0f - std::log(4.0f), first, 2);
  lesson01::add_key(sum, 3.0f, second, 2);
  check_sum(sum, 3.0, 1.25, 25.0 + 10.0, 10.0);
  lesson01::add_key(sum, 3.0f + std::log(5.0f), third, 3);  // the sums so far shrink to 1/5
  check_sum(sum, 3.0 + std::log(5.0), 0.25 + 1.0, 7.0 + 1.0, 2.0 + 1.0);
  CHECK(sum.acc[2] == 7.0f);  // a head's elements may be odd in number
}

TEST_CASE("a score of thousands neither overflows nor vanishes") {
  const float first[] = {10.0f, 2.0f}, second[] = {100.0f, 40.0f};
  lesson01::OnlineSoftmax sum{.m = -INFINITY, .l = 0.0f, .acc = {}};
  lesson01::add_key(sum, -5000.0f, first, 2);
  lesson01::add_key(sum, 5000.0f, second, 2);  // the first key's weight is 0 beside it
  check_sum(sum, 5000.0, 1.0, 100.0, 40.0);
}

TEST_CASE("queries that go through K and V together do not see each other") {
  constexpr int kDim = 40;
  std::mt19937_64 rng(5);
  const std::vector<float> q = random_floats(rng, kDim * 9);
  const std::vector<float> kv = random_floats(rng, 600 * kDim);
  const kv::attention::KvRows rows{kv.data(), kv.data() + 7, kDim};
  std::vector<int> lengths{0, 1, 63, 64, 65, 256, 257, 320, 599};
  for (int round = 0; round < 20; ++round) {
    std::shuffle(lengths.begin(), lengths.end(), rng);
    std::vector<float> together(q.size(), kNaN), alone(q.size(), kNaN);
    std::vector<kv::attention::Query> queries;
    for (size_t i = 0; i < lengths.size(); ++i) {
      queries.push_back({&q[i * kDim], &together[i * kDim], lengths[i]});
      const kv::attention::Query query{&q[i * kDim], &alone[i * kDim], lengths[i]};
      kv::attention::attend({&query, 1}, rows, kDim, 0.2f);
      if (lengths[i] == 0) CHECK(alone[i * kDim] == 0.0f);
    }
    kv::attention::attend(queries, rows, kDim, 0.2f);
    CHECK(together == alone);
  }
}

TEST_CASE("merging two parts weighs each by its own maximum") {
  kv::attention::Partial a, b;
  a.m = 1.0f, a.l = 2.0f, a.acc[0] = 3.0f;
  b.m = 3.0f, b.l = 1.5f, b.acc[0] = -1.0f;
  const double shrink = std::exp(-2.0);
  for (const bool swapped : {false, true}) {
    kv::attention::Partial first = swapped ? b : a;
    kv::attention::merge(first, swapped ? a : b, 1);
    CHECK(first.m == 3.0f);
    CHECK(std::abs(double{first.l} - (2.0 * shrink + 1.5)) <= 1e-6);
    CHECK(std::abs(double{first.acc[0]} - (3.0 * shrink - 1.0)) <= 1e-6);
  }
}

TEST_CASE("tiles and groups add up in the order of the contract") {
  // With head_dim 1 a score is q * k, so the contract can be spelled out bit by bit. In group 0 m
  // is 0, unless token 200 has a score that moves it.
  using namespace kv::attention;
  std::mt19937_64 rng(7);
  std::vector<float> k = random_floats(rng, 1500);
  const std::vector<float> v = random_floats(rng, 1500);
  for (float& x : k) x = -std::abs(x);
  k[10] = 0.0f;
  const float q = 1.0f, edge = std::log(256.0f);
  for (const float loud : {0.0f, edge, std::nextafter(edge, 9.0f), 20.0f}) {
    k[200] = loud;
    for (const int num_keys : {1, 64, 65, 256, 257, 320, 512, 600, 1500}) {
      CAPTURE(loud);
      CAPTURE(num_keys);
      Partial result, group;
      for (int first = 0; first < num_keys; first += kTileTokens) {
        const int end = std::min(first + kTileTokens, num_keys);
        if (first % kGroupTokens == 0) group = {};
        const float largest = *std::max_element(&k[first], &k[first] + (end - first));
        if (largest > group.m + edge) {
          const float shrink = kv::exp_of(group.m - largest);
          group.m = largest, group.l *= shrink, group.acc[0] *= shrink;
        }
        for (int t = first; t < end; ++t) {
          const float p = kv::exp_of(k[t] - group.m);
          group.l += p, group.acc[0] += p * v[t];
        }
        if (end % kGroupTokens == 0 || end == num_keys) merge(result, group, 1);
      }
      float out = kNaN;
      const Query query{&q, &out, num_keys};
      attend({&query, 1}, KvRows{k.data(), v.data(), 1}, 1, 1.0f);
      CHECK(out == result.acc[0] / result.l);
    }
  }
}

TEST_CASE("the order of merges changes the bits, so the contract fixes it") {
  std::mt19937_64 rng(6);
  std::vector<kv::attention::Partial> parts(8);
  for (kv::attention::Partial& part : parts) {
    const std::vector<float> x = random_floats(rng, 3);
    part.m = x[0], part.l = std::abs(x[1]) + 1.0f, part.acc[0] = x[2];
  }
  kv::attention::Partial chain = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) kv::attention::merge(chain, parts[i], 1);
  kv::attention::Partial halves[2] = {parts[0], parts[4]};
  for (size_t i = 1; i < 4; ++i) {
    kv::attention::merge(halves[0], parts[i], 1);
    kv::attention::merge(halves[1], parts[4 + i], 1);
  }
  kv::attention::merge(halves[0], halves[1], 1);
  CHECK(std::abs(chain.acc[0] / chain.l - halves[0].acc[0] / halves[0].l) <= 1e-6f);
  CHECK(chain.acc[0] != halves[0].acc[0]);
}
