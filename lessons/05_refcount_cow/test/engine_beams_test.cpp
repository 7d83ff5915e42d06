// Tests of beam search: against every sequence there is, and against a search that keeps nothing.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <tuple>
#include <vector>

#include "common/error.h"
#include "engine.h"
#include "lessons/01_no_cache/engine.h"
#include "tests/support/random_model.h"
#include "tests/support/shipped_model.h"
#include "tests/support/temp_dir.h"

namespace {

using kv::Beam;
using kv::BeamSearch;
using kv::BeamSearchParams;
using lesson05::SharingEngine;

constexpr int kVocab = 6, kMaxTokens = 4, kStop = 2;

kv::Model& tiny_vocabulary_model() {
  static const kvtest::TempDir kDir;
  static kv::Model model = [] {
    kvtest::RandomModel shape;
    shape.vocab_size = kVocab;
    shape.weight_std = 0.4f;  // distributions far from flat
    kvtest::write_model(kDir.path(), shape);
    return kv::Model::load(kDir.path(), kv::Device::kCpu);
  }();
  return model;
}

kv::Request tiny_request() {
  kv::Request request;
  request.prompt = {1, 3, 0, 5, 4};
  request.max_tokens = kMaxTokens;
  request.stop_token_ids = {kStop};
  return request;
}

/// Logits after `tokens`, without any cache.
std::vector<float> logits_after(kv::Model& model, const std::vector<int32_t>& tokens) {
  lesson01::CausalAttention attention(model.config());
  kv::PassRows rows;
  rows.add(0, tokens, 0);
  const auto logits = model.forward(rows, attention);
  return {logits.begin(), logits.end()};
}

/// Beam search in its plainest form: no cache, everything sorted, no early end. With more beams
/// than there are sequences it finds all of them.
std::vector<Beam> reference_search(kv::Model& model, const kv::Request& request,
                                   const BeamSearchParams& params) {
  const size_t width = params.num_beams;
  std::vector<Beam> live{Beam{}}, ended;
  for (int length = 1; length <= request.max_tokens && !live.empty(); ++length) {
    std::vector<Beam> next;
    for (const Beam& parent : live) {
      std::vector<int32_t> tokens = request.prompt;
      tokens.insert(tokens.end(), parent.tokens.begin(), parent.tokens.end());
      const auto logits = logits_after(model, tokens);
      double sum = 0;
      for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
      for (int32_t token = 0; token < kVocab; ++token) {
        Beam beam = parent;
        beam.tokens.push_back(token);
        beam.log_prob += static_cast<double>(logits[token]) - std::log(sum);
        beam.score = beam.log_prob / std::pow(static_cast<double>(length), params.length_penalty);
        beam.finished = token == kStop;
        next.push_back(beam);
      }
    }
    std::ranges::stable_sort(next, std::greater{}, &Beam::log_prob);
    if (next.size() > 2 * width) next.resize(2 * width);
    live.clear();
    for (const Beam& beam : next) {
      if (beam.finished || live.size() < width) (beam.finished ? ended : live).push_back(beam);
    }
  }
  ended.insert(ended.end(), live.begin(), live.end());
  std::ranges::sort(ended, [](const Beam& a, const Beam& b) {
    return std::tuple(-a.score, a.tokens.size(), a.tokens) <
           std::tuple(-b.score, b.tokens.size(), b.tokens);
  });
  if (ended.size() > width) ended.resize(width);
  return ended;
}

/// Two ways to sum the same doubles differ in their last bits.
constexpr double kTolerance = 1e-9;

void check_equal(const std::vector<Beam>& found, const std::vector<Beam>& wanted) {
  REQUIRE(found.size() <= wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i].tokens == wanted[i].tokens);
    CHECK(found[i].finished == wanted[i].finished);
    CHECK(std::abs(found[i].log_prob - wanted[i].log_prob) <= kTolerance);
    CHECK(std::abs(found[i].score - wanted[i].score) <= kTolerance);
  }
}

/// Logits with these probabilities.
std::vector<float> row(std::vector<double> probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

}  // namespace

TEST_CASE("with enough beams the search finds the best of all sequences") {
  kv::Model& model = tiny_vocabulary_model();
  const kv::Request request = tiny_request();
  for (const double penalty : {0.0, 1.0, 2.0}) {
    CAPTURE(penalty);
    const auto all =
        reference_search(model, request, {.num_beams = 10'000, .length_penalty = penalty});
    CHECK(all.size() == 1 + 5 + 25 + 125 * 6);
    for (const int block_size : {1, 2, 16}) {
      SharingEngine engine(model, {.block_size = block_size});
      // Five ways to go on after each token: 125 hypotheses are live before the last one.
      const auto result =
          engine.beam_search(request, {.num_beams = 125, .length_penalty = penalty});
      CHECK(result.beams.size() == 125);
      check_equal(result.beams, all);
      CHECK(engine.manager()->pool().num_used() == 0);
    }
  }
}

TEST_CASE("a narrow search is that of a search without any cache") {
  kv::Model& model = tiny_vocabulary_model();
  for (const int beams : {1, 2, 3, 5}) {
    for (const double penalty : {0.0, 1.0, 0.6}) {
      for (const int length : {1, 4, 12}) {
        CAPTURE(beams);
        CAPTURE(penalty);
        CAPTURE(length);
        kv::Request request = tiny_request();
        request.max_tokens = length;
        const BeamSearchParams params{.num_beams = beams, .length_penalty = penalty};
        SharingEngine engine(model, {.block_size = 4});
        const auto found = engine.beam_search(request, params).beams;
        const auto wanted = reference_search(model, request, params);
        CHECK(found.size() == wanted.size());
        check_equal(found, wanted);
        CHECK(engine.manager()->pool().num_used() == 0);
      }
    }
  }
}

TEST_CASE("one beam is greedy generation") {
  kv::Model& model = kvtest::shipped_model();
  const kv::Request request = kvtest::request_of(20, 30);
  const auto greedy = lesson01::make_engine(model, {})->generate({&request, 1});
  SharingEngine engine(model, {});
  const auto one = engine.beam_search(request, {.num_beams = 1});
  REQUIRE(one.beams.size() == 1);
  CHECK(one.beams[0].tokens == greedy.completions[0].tokens);
  CHECK_FALSE(one.beams[0].finished);
  CHECK(one.counters.kv_bytes_copied == 0);
}

TEST_CASE("beams share the prompt and what they have in common") {
  SharingEngine engine(kvtest::shipped_model(), {});
  const kv::Request request = kvtest::request_of(64, 11);
  size_t steps = 0;
  const auto result = engine.beam_search(request, {}, [&](std::span<const Beam> beams) {
    ++steps;
    CHECK(beams.size() == 4);
    for (size_t i = 0; i < beams.size(); ++i) {
      CHECK(beams[i].tokens.size() == steps);
      const auto& table = engine.manager()->table(engine.sequence_of(i));
      CHECK(table.num_tokens() == 64 + static_cast<int>(steps) - 1);
      CHECK(engine.manager()->pool().ref_cnt(table.block_ids()[0]) == 4);
    }
    return true;
  });
  CHECK(steps == 11);
  CHECK(result.counters.kv_rows_computed == 64 + 4 * 10);
  CHECK(result.counters.named("blocks_in_use") == 8);
  CHECK(result.counters.named("blocks_as_copies") == 20);
  CHECK(result.counters.kv_bytes_copied ==
        engine.manager()->num_copies() * engine.cache()->bytes_per_block());
}

TEST_CASE("the search can be ended early and leaves the pool empty") {
  SharingEngine engine(kvtest::shipped_model(), {});
  const auto result =
      engine.beam_search(kvtest::request_of(5, 40), {},
                         [](std::span<const Beam> beams) { return beams[0].tokens.size() < 3; });
  CHECK(result.beams.size() == 4);
  CHECK(result.beams[0].tokens.size() == 3);
  CHECK(engine.manager()->pool().num_used() == 0);
  const auto none = engine.beam_search(kvtest::request_of(5, 0), {});
  REQUIRE(none.beams.size() == 1);
  CHECK(none.beams[0].tokens.empty());
  CHECK(none.counters.passes == 0);
}

TEST_CASE("ties go to the better parent and then to the lower token") {
  BeamSearch search({.num_beams = 3}, 3, {});
  CHECK(search.step(row({0.25, 0.25, 0.25, 0.25})) == std::vector<size_t>{0, 0, 0});
  for (size_t i = 0; i < 3; ++i) {
    CHECK(search.live()[i].tokens == std::vector<int32_t>{static_cast<int32_t>(i)});
  }
  std::vector<float> three;
  for (int i = 0; i < 3; ++i) {
    for (const float logit : row({0.4, 0.1, 0.1, 0.4})) three.push_back(logit);
  }
  CHECK(search.step(three) == std::vector<size_t>{0, 0, 1});
  CHECK(search.live()[0].tokens == std::vector<int32_t>{0, 0});
  CHECK(search.live()[1].tokens == std::vector<int32_t>{0, 3});
  CHECK(search.live()[2].tokens == std::vector<int32_t>{1, 0});
}

TEST_CASE("the length penalty decides between a short and a long hypothesis") {
  const std::vector<int32_t> stop{0};
  const auto best = [&](double penalty) {
    BeamSearch search({.num_beams = 1, .length_penalty = penalty}, 2, stop);
    search.step(row({0.4, 0.6}));  // stop at once, or go on
    if (!search.done()) search.step(row({0.5, 0.5}));
    return search.best()[0].tokens;
  };
  CHECK(best(0.0) == std::vector<int32_t>{0});     // 0.4 against 0.6 * 0.5
  CHECK(best(2.0) == std::vector<int32_t>{1, 0});  // but less per token
}

TEST_CASE("the search ends when no live hypothesis can reach the finished ones, and not before") {
  const std::vector<int32_t> stop{0};
  BeamSearch sums({.num_beams = 1, .length_penalty = 0.0}, 100, stop);
  sums.step(row({0.3, 0.7}));
  CHECK_FALSE(sums.done());  // 0.7 may still beat 0.3
  sums.step(row({0.9, 0.1}));
  CHECK(sums.done());  // 0.07 cannot beat 0.63
  CHECK(sums.best()[0].tokens == std::vector<int32_t>{1, 0});
  BeamSearch search({.num_beams = 1, .length_penalty = 1.0}, 4, stop);
  search.step(row({0.6, 0.25, 0.15}));  // stop with log 0.6, go on with log 0.25
  CHECK_FALSE(search.done());           // log 0.25 / 2 would not be better, but log 0.25 / 4 would
  for (int i = 0; i < 3; ++i) search.step(row({0.01, 0.98, 0.01}));
  CHECK(search.done());
  CHECK(search.best()[0].tokens == std::vector<int32_t>{1, 1, 1, 1});
}

TEST_CASE("impossible tokens are no candidates and damaged logits are refused") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  BeamSearch search({.num_beams = 4}, 3, {});
  search.step(std::vector<float>{-kInf, 0.0f, -kInf});
  REQUIRE(search.live().size() == 1);
  CHECK(search.live()[0].log_prob == 0.0);
  CHECK_THROWS_AS(search.step(std::vector<float>{0.0f, std::nanf(""), 0.0f}), kv::UserError);
  CHECK_THROWS_AS(search.step(std::vector<float>{0.0f, kInf, 0.0f}), kv::UserError);
  CHECK_THROWS_AS(search.step(std::vector<float>{-kInf, -kInf, -kInf}), kv::UserError);
  CHECK_THROWS_AS(BeamSearch({.num_beams = 0}, 3, {}), kv::UserError);
}

TEST_CASE("a length penalty that is negative or no number is refused") {
  for (const double penalty : {-0.5, -1e-9, static_cast<double>(INFINITY), std::nan("")}) {
    CHECK_THROWS_WITH_AS(BeamSearch({.num_beams = 1, .length_penalty = penalty}, 3, {}),
                         doctest::Contains("wanted 0 (the sum itself) or a positive number"),
                         kv::UserError);
  }
}
