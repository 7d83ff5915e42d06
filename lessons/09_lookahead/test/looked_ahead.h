#pragma once

// Checks that the bits are those of lesson 02, whatever is guessed. For any device.

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "lessons/08_scheduler/test/served.h"
#include "lessons/09_lookahead/engine.h"
#include "pooled_scheduler.h"

namespace lesson09_test {

using kvtest::check_equal;
using lesson08_test::flat;
using lesson09::LookaheadEngine;

/// Knows the text that will be generated. Guesses it, or a wrong token every time, or a random
/// number of right tokens and then a wrong one.
class Oracle : public lesson09::Drafter {
 public:
  enum class Kind { kRight, kWrong, kMixed };
  Oracle(Kind kind, const std::vector<kv::Request>& requests, const kv::GenerateResult& known)
      : kind_(kind) {
    for (size_t i = 0; i < requests.size(); ++i) {
      texts_.push_back(requests[i].prompt);
      const auto& generated = known.completions[i].tokens;
      texts_.back().insert(texts_.back().end(), generated.begin(), generated.end());
    }
  }
  Tokens propose(int64_t id, std::span<const int32_t> tokens, int max_guesses) override {
    const Tokens& text = texts_.at(id);
    Tokens guesses;
    for (size_t at = tokens.size(); at < text.size() && std::ssize(guesses) < max_guesses; ++at) {
      guesses.push_back(text[at]);
      const bool wrong = kind_ == Kind::kWrong || (kind_ == Kind::kMixed && random_() % 4 == 0);
      if (wrong) guesses.back() = (guesses.back() + 1) % 256;
      if (kind_ == Kind::kMixed && random_() % 8 == 0) break;
    }
    return guesses;
  }

 private:
  Kind kind_;
  std::vector<Tokens> texts_;
  std::mt19937 random_{1};
};

/// Requests that repeat themselves, and others; half of them begin with one system prompt.
inline std::vector<kv::Request> repetitive(int count, int seed = 1) {
  std::vector<kv::Request> requests = lesson08_test::mixed(count, seed);
  for (size_t i = 0; i < requests.size(); i += 2) {
    Tokens& prompt = requests[i].prompt;
    const Tokens once(prompt.begin(), prompt.begin() + std::ssize(prompt) / 2);
    prompt.insert(prompt.end(), once.begin(), once.end());
    requests[i].max_tokens += 12;
  }
  return requests;
}

/// Checks that the device may choose tokens and judge guesses: the tokens are the same, and the
/// host gets no choice after a wrong guess.
inline void check_judged_on_device(kv::Model& model, const std::vector<int>& nums_guesses) {
  auto requests = repetitive(8, 7);
  for (auto& request : requests) request.sampling.temperature = 0;
  const auto wanted = flat(model, requests);
  using Kind = Oracle::Kind;
  for (const Kind kind : {Kind::kRight, Kind::kWrong, Kind::kMixed}) {
    for (const int num_guesses : nums_guesses) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(num_guesses);
      Oracle oracle(kind, requests, wanted);
      lesson09::Server server(model, oracle, {.num_blocks = 24}, {.choose_on_device = true},
                              {.num_guesses = num_guesses});
      for (size_t i = 0; i < requests.size(); ++i) {
        server.submit(static_cast<int64_t>(i), requests[i]);
      }
      std::vector<Tokens> found(requests.size());
      int64_t struck_out = 0;
      while (!server.idle()) {
        const lesson09::StepOutput step = server.step();
        for (const auto& token : step.tokens) {
          found[token.id].push_back(token.token);
        }
        if (step.num_rows == 0) continue;
        const auto chosen = server.chooser().chosen();
        const auto struck = std::ranges::count(chosen, -1);
        CHECK(std::ssize(chosen) - struck == std::ssize(step.tokens));
        struck_out += struck;
      }
      for (size_t i = 0; i < requests.size(); ++i) CHECK(found[i] == wanted.completions[i].tokens);
      const int64_t right = server.scheduler().num_accepted();
      CHECK(struck_out == server.scheduler().num_proposed() - right);
      CHECK((right > 0) == (kind != Kind::kWrong));
      CHECK((struck_out > 0) == (kind != Kind::kRight));
    }
  }
}

/// Blocks, chunks, preemption, caching, prefix hits, resets; drafters that are right, wrong, both.
inline void check_configurations(kv::Model& model, int num_requests) {
  struct Config {
    int block_size, num_blocks, num_guesses;
    lesson08::SchedulerOptions scheduler;
    int bits = 64;
    bool caching = true;
    int reset_every = 0;  // passes
  };
  const Config configs[] = {
      {16, 0, 4, {}},
      {16, 24, 4, {}},
      {4, 60, 7, {.max_tokens_per_pass = 64, .max_chunk = 16}, 3},
      {16, 24, 1, {.max_tokens_per_pass = 40, .full_sequence_must_fit = false}},
      {1, 200, 5, {.max_tokens_per_pass = 128, .max_chunk = 7}, 64, true, 9},
      {16, 24, 20, {.max_tokens_per_pass = 200, .chunked_prefill = false}, 64, true, 5},
      {64, 5, 4, {.order = lesson08::Order::kPriority}, 64, false},
      {256, 3, 70, {.max_tokens_per_pass = 1000, .max_running = 2, .max_chunk = 100}, 0}};
  std::vector<kv::Request> requests = repetitive(num_requests);
  const auto further = kv::samples_of(requests[0], 3);  // of the same prompt, with other draws
  requests.insert(requests.begin() + 1, further.begin() + 1, further.end());
  const auto wanted = flat(model, requests);
  int64_t preemptions = 0, hits = 0, proposed = 0, accepted = 0;
  for (const Config& c : configs) {
    for (const char* drafter : {"n-grams", "right", "wrong", "mixed"}) {
      CAPTURE(c.block_size);
      CAPTURE(c.num_guesses);
      CAPTURE(std::string(drafter));
      using Kind = Oracle::Kind;
      const Kind kind = drafter[0] == 'r'   ? Kind::kRight
                        : drafter[0] == 'w' ? Kind::kWrong
                                            : Kind::kMixed;
      std::unique_ptr<lesson09::Drafter> guesses;
      if (drafter[0] != 'n') guesses = std::make_unique<Oracle>(kind, requests, wanted);
      LookaheadEngine engine(model, {c.block_size, c.num_blocks},
                             {.scheduler = c.scheduler,
                              .hasher = lesson06::narrow_hasher(c.bits),
                              .caching = c.caching},
                             {.num_guesses = c.num_guesses}, std::move(guesses));
      const auto result = lesson08_test::check_served(engine, requests, wanted, c.reset_every);
      const auto& counters = result.generated.counters;
      const int64_t right = counters.named("guesses_accepted");
      if (drafter[0] == 'w') CHECK(right == 0);
      if (drafter[0] == 'r') CHECK(right == counters.named("guesses_proposed"));
      preemptions += result.num_preemptions;
      hits += counters.named("cache_hit_tokens");
      proposed += counters.named("guesses_proposed");
      accepted += right;
    }
  }
  CHECK(preemptions > num_requests / 2);
  CHECK(hits > 10 * num_requests);
  CHECK(accepted > 10 * num_requests);
  CHECK(proposed > accepted);
}

}  // namespace lesson09_test
