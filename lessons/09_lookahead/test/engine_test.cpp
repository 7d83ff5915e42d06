// Tests of lesson 09's engine: whatever is guessed, tokens and bits are those of lesson 02.

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <vector>

#include "cli/model_drafter.h"
#include "common/error.h"
#include "looked_ahead.h"
#include "qwen3/tokenizer.h"

namespace {

using kvtest::check_equal;
using kvtest::request_of;
using kvtest::shipped_model;
using lesson09::LookaheadEngine;
using lesson09::ServeOptions;
using lesson09_test::Oracle;
using lesson09_test::repetitive;
using Kind = Oracle::Kind;

kv::GenerateResult flat(const std::vector<kv::Request>& requests) {
  return lesson08_test::flat(shipped_model(), requests);
}

std::unique_ptr<Oracle> oracle(Kind kind, const std::vector<kv::Request>& requests,
                               const kv::GenerateResult& known) {
  return std::make_unique<Oracle>(kind, requests, known);
}

}  // namespace

TEST_CASE("blocks, chunks, preemption, prefix hits, samples, any drafter: the same bits" *
          doctest::test_suite("sweep")) {
  lesson09_test::check_configurations(shipped_model(), 24);
}

TEST_CASE("the plain kernels, too, give the bits that they give without guesses") {
  shipped_model().set_kernel(kv::Kernel::kPlain);
  const auto requests = repetitive(6, 4);
  const auto wanted = flat(requests);
  LookaheadEngine engine(shipped_model(), {}, {}, {.num_guesses = 6},
                         oracle(Kind::kMixed, requests, wanted));
  const auto found = engine.generate(requests);
  shipped_model().set_kernel(kv::Kernel::kFast);
  check_equal(found, wanted);
}

TEST_CASE("0 guesses is lesson 08: the same passes and rows") {
  const auto requests = repetitive(10, 2);
  LookaheadEngine engine(shipped_model(), {.num_blocks = 24}, {}, {.num_guesses = 0});
  lesson08::ServingEngine before(shipped_model(), {.num_blocks = 24});
  const auto found = engine.generate(requests), wanted = before.generate(requests);
  check_equal(found, wanted);
  CHECK(found.counters.passes == wanted.counters.passes);
  CHECK(found.counters.kv_rows_computed == wanted.counters.kv_rows_computed);
  CHECK(found.counters.named("guesses_proposed") == 0);
}

TEST_CASE("as in lesson 08, passes of decodes are padded, and who watches the cache is told") {
  const auto requests = repetitive(6, 3);
  int64_t stored = 0, cleared = 0;
  ServeOptions options{.pad_decodes_to = 4};
  options.on_cache_event = [&](const lesson07::CacheEvent& event) {
    stored += event.kind == lesson07::CacheEvent::Kind::kStored;
    cleared += event.kind == lesson07::CacheEvent::Kind::kCleared;
  };
  LookaheadEngine engine(shipped_model(), {.block_size = 4}, options);
  check_equal(engine.generate(requests), flat(requests));
  CHECK(stored == engine.manager()->pool().index().size());
  CHECK(cleared == 0);
  const auto longer = repetitive(12, 3);
  check_equal(engine.generate(longer), flat(longer));
  CHECK(cleared == 1);  // a larger pool is another cache
}

TEST_CASE("always right: one pass for every five tokens, and always wrong: a pass for each") {
  const std::vector<kv::Request> requests{request_of(20, 41)};
  const auto wanted = flat(requests);
  for (const Kind kind : {Kind::kRight, Kind::kWrong}) {
    LookaheadEngine engine(shipped_model(), {}, {}, {}, oracle(kind, requests, wanted));
    const auto found = engine.generate(requests);
    check_equal(found, wanted);
    const bool right = kind == Kind::kRight;
    CHECK(found.counters.passes == (right ? 9 : 41));  // 8 of 5 tokens, and one more
    // Rows: 60 tokens that any run computes, and those that were for nothing.
    const int64_t wasted =
        found.counters.named("guesses_proposed") - found.counters.named("guesses_accepted");
    CHECK(found.counters.kv_rows_computed == 60 + wasted);
    CHECK((wasted == 0) == right);
  }
}

TEST_CASE("a stop token, min_tokens and max_tokens among the guesses end a request as ever") {
  std::vector<kv::Request> requests{request_of(27, 12), request_of(27, 12), request_of(9, 12),
                                    request_of(16, 1),  request_of(15, 2),  request_of(8, 0)};
  const auto free = flat(requests);
  requests[0].stop_token_ids = {free.completions[0].tokens[5]};
  requests[1].stop_token_ids = {free.completions[1].tokens[5]};
  requests[1].min_tokens = 9;
  requests[2].stop_token_ids = {free.completions[2].tokens[11]};
  const auto wanted = flat(requests);
  REQUIRE(wanted.completions[0].finish == kv::FinishReason::kStop);
  REQUIRE(wanted.completions[0].tokens.size() == 6);
  for (const Kind kind : {Kind::kRight, Kind::kMixed}) {
    for (const int num_guesses : {1, 3, 4, 20}) {
      CAPTURE(num_guesses);
      // It guesses on beyond the stop token, which ends the request all the same.
      LookaheadEngine engine(shipped_model(), {.block_size = 4}, {}, {.num_guesses = num_guesses},
                             oracle(kind, requests, free));
      check_equal(engine.generate(requests), wanted);
      engine.manager()->check();
      CHECK(engine.manager()->pool().num_used() == 0);
    }
  }
}

TEST_CASE("a cancel in the middle of the guesses: no token comes after it") {
  const std::vector<kv::Request> requests{request_of(20, 30), request_of(11, 30, 1)};
  const auto wanted = flat(requests);
  LookaheadEngine engine(shipped_model(), {}, {}, {}, oracle(Kind::kRight, requests, wanted));
  const auto found = engine.generate(
      requests, [n = 0](size_t request, int32_t) mutable { return request != 0 || ++n < 3; });
  CHECK(found.completions[0].finish == kv::FinishReason::kCancelled);
  CHECK(found.completions[0].tokens.size() == 3);
  CHECK(found.completions[1].logits_xxh64 == wanted.completions[1].logits_xxh64);
  CHECK(engine.manager()->pool().num_used() == 0);
}

TEST_CASE("whatever a callback or a drafter throws, every block is free, and the next is right") {
  const auto requests = repetitive(8, 5);
  const auto wanted = flat(requests);
  LookaheadEngine engine(shipped_model(), {.num_blocks = 24}, {}, {},
                         oracle(Kind::kMixed, requests, wanted));
  lesson08_test::check_throwing_callbacks(engine, requests, wanted, 30);
  int asked = 0;
  LookaheadEngine throwing(shipped_model(), {.num_blocks = 24}, {}, {},
                           std::make_unique<lesson09_test::FunctionDrafter>(
                               [&](int64_t, auto, int max_guesses) -> std::vector<int32_t> {
                                 if (++asked == 7) throw std::runtime_error("no idea");
                                 return lesson09_test::Tokens(max_guesses, 300);
                               }));
  CHECK_THROWS_AS(throwing.generate(requests), std::runtime_error);
  throwing.manager()->check();
  CHECK(throwing.manager()->pool().num_used() == 0);
  check_equal(throwing.generate(requests), wanted);
}

TEST_CASE("a text that repeats itself takes fewer passes with n-grams") {
  kv::Request request;
  request.prompt = kv::Tokenizer::load(KV_SOURCE_DIR "/models/tiny")
                       .encode("The bird said: hello, hello, hello, hello, hello, hello");
  request.max_tokens = 60;
  LookaheadEngine engine(shipped_model(), {});
  const auto found = engine.generate({&request, 1});
  check_equal(found, flat({request}));
  CHECK(found.counters.named("guesses_accepted") > 0);
  CHECK(found.counters.passes == 60 - found.counters.named("guesses_accepted"));
}

TEST_CASE("later requests find what was accepted, in one call and in the next") {
  const std::vector<kv::Request> requests{request_of(30, 20)};
  const auto wanted = flat(requests);
  LookaheadEngine engine(shipped_model(), {.num_blocks = 64}, {}, {},
                         oracle(Kind::kMixed, requests, wanted));
  engine.generate(requests);
  kv::Request longer = requests[0];  // a second turn: the answer is a part of its prompt
  const auto& answer = wanted.completions[0].tokens;
  longer.prompt.insert(longer.prompt.end(), answer.begin(), answer.end());
  const auto found = engine.serve({&longer, 1}, {});
  CHECK(found.times[0].num_cached_tokens == 48);  // 49 of its 50 tokens were computed: 3 blocks
  check_equal(found.generated, flat({longer}));
}

TEST_CASE("a second model guesses, and the same model as the second one is always right") {
  auto requests = repetitive(4, 3);
  for (auto& request : requests) request.sampling.temperature = 0;
  const auto wanted = flat(requests);
  const std::filesystem::path tiny = KV_SOURCE_DIR "/models/tiny";
  const auto& config = shipped_model().config();
  LookaheadEngine engine(shipped_model(), {}, {}, {},
                         std::make_unique<lesson09::ModelDrafter>(
                             kv::Model::load(tiny, kv::Device::kCpu), config, 2048));
  const auto found = engine.generate(requests);
  check_equal(found, wanted);
  CHECK(found.counters.named("guesses_accepted") == found.counters.named("guesses_proposed"));
  kv::ModelConfig other = config;
  other.vocab_size += 1;
  CHECK_THROWS_WITH_AS(lesson09::ModelDrafter(kv::Model::load(tiny, kv::Device::kCpu), other, 64),
                       doctest::Contains("vocabulary of"), kv::UserError);
}

TEST_CASE("guesses that the device judges: the same tokens, and the host gets them alone") {
  lesson09_test::check_judged_on_device(shipped_model(), {1, 4, 20});
}

TEST_CASE("a step gives a request several tokens, and an abort among guesses leaves nothing") {
  const std::vector<kv::Request> requests{request_of(20, 30), request_of(11, 7, 1)};
  const auto wanted = flat(requests);
  Oracle drafter(Kind::kRight, requests, wanted);
  lesson09::Server server(shipped_model(), drafter, {.num_blocks = 32});
  server.submit(0, requests[0]);
  server.submit(1, requests[1]);
  const auto step = server.step();
  CHECK(step.tokens.size() == 10);
  CHECK(step.num_rows == 20 + 11 + 8);
  for (const auto& token : step.tokens) {
    const auto& tokens = wanted.completions[token.id].tokens;
    CHECK(std::ranges::find(tokens, token.token) != tokens.end());
  }
  CHECK(server.abort(0));
  server.scheduler().check();
  const auto last = server.step();
  REQUIRE(last.tokens.size() == 2);
  CHECK(last.tokens[1].logits_xxh64 == wanted.completions[1].logits_xxh64);
  REQUIRE(last.ended.size() == 1);
  CHECK(last.ended[0].id == 1);
  CHECK(server.idle());
  CHECK(server.manager().pool().num_used() == 0);
}

TEST_CASE("guesses are counted for each call") {
  const std::vector<kv::Request> requests{request_of(20, 30)};
  const auto wanted = flat(requests);
  LookaheadEngine engine(shipped_model(), {.num_blocks = 32}, {}, {},
                         oracle(Kind::kRight, requests, wanted));
  for (int round = 0; round < 2; ++round) {
    CHECK(engine.generate(requests).counters.named("guesses_accepted") == 24);
  }
}
