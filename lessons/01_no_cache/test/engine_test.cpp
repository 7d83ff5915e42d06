// Tests of lesson 01's engine, and of the two facts that lesson 02 stands on.

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <vector>

#include "common/error.h"
#include "common/parallel.h"
#include "engine.h"
#include "tests/support/shipped_model.h"

namespace {

using kvtest::request_of;
using kvtest::shipped_model;

kv::GenerateResult generate(const std::vector<kv::Request>& requests, int max_seq_len = 0,
                            const kv::TokenCallback& on_token = {}) {
  return lesson01::make_engine(shipped_model(), {.max_seq_len = max_seq_len})
      ->generate(requests, on_token);
}

kv::Request request_with(std::vector<int32_t> prompt) {
  kv::Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = 1;
  return request;
}

/// CausalAttention with a hook before and after each layer.
class Watched : public kv::Attention {
 public:
  using Hook = std::function<void(const kv::AttentionRows&)>;
  Watched(Hook before, Hook after)
      : causal_(shipped_model().config()), before_(std::move(before)), after_(std::move(after)) {}

  void begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) override {
    causal_.begin_pass(rows, arrays);
  }
  void forward(const kv::AttentionRows& rows, const kv::Stream& stream) override {
    if (before_) before_(rows);
    causal_.forward(rows, stream);
    if (after_) after_(rows);
  }
  /// The logits after the last of `tokens`.
  std::vector<float> logits_after(const std::vector<int32_t>& tokens) {
    kv::PassRows rows;
    rows.add(0, tokens, 0);
    const auto logits = shipped_model().forward(rows, *this);
    return {logits.begin(), logits.end()};
  }

 private:
  lesson01::CausalAttention causal_;
  Hook before_, after_;
};

}  // namespace

TEST_CASE("every pass runs every token so far") {
  lesson01::NoCacheEngine engine(shipped_model(), {});
  kv::Request request = request_of(3, 4);
  request.prompt[1] = 1;
  request.stop_token_ids = {1};  // ends nothing in a prompt
  int pass = 0;
  const auto result = engine.generate({&request, 1}, [&](size_t, int32_t) {
    REQUIRE(std::ssize(engine.rows_of_passes()) == pass + 1);
    CHECK(engine.rows_of_passes()[pass] == 3 + pass);  // the prompt, and one more each time
    return ++pass < 5;  // stops an engine that goes on after its 4 tokens
  });
  CHECK(pass == 4);
  CHECK(result.completions.at(0).tokens.size() == 4);
  CHECK(result.counters.kv_rows_computed == 3 + 4 + 5 + 6);
  double seconds = 0.0;  // of all passes: one timer takes their times
  for (const auto& of_pass : result.passes) seconds += of_pass.seconds;
  CHECK(result.counters.seconds == doctest::Approx(seconds).scale(0.0));
  CHECK(result.counters.kv_bytes_reserved == 0);  // nothing is kept from pass to pass
  CHECK(result.counters.kv_bytes_used == 0);
  engine.generate({&request, 1});
  CHECK(engine.rows_of_passes().size() == 4);  // of the last call alone
}

TEST_CASE("rows computed are what the formula says") {
  for (const int prompt : {1, 2, 5, 63, 64, 65}) {
    for (const int tokens : {0, 1, 2, 9}) {
      CAPTURE(prompt);
      CAPTURE(tokens);
      const auto result = generate({request_of(prompt, tokens)});
      CHECK(result.counters.kv_rows_computed == tokens * prompt + tokens * (tokens - 1) / 2);
      CHECK(result.counters.passes == tokens);
      CHECK(std::ssize(result.passes) == tokens);
      CHECK(std::ssize(result.completions.at(0).tokens) == tokens);
    }
  }
}

TEST_CASE("sequences advance together, and leave when they are finished") {
  const auto result =
      generate({request_of(3, 2), request_of(10, 4), request_of(5, 0), request_of(2, 1)});
  const int wanted[] = {3 + 10 + 2, 4 + 11, 12, 13};
  REQUIRE(result.passes.size() == 4);
  for (size_t pass = 0; pass < 4; ++pass) {
    CAPTURE(pass);
    CHECK(result.passes[pass].rows == wanted[pass]);
  }
  CHECK(result.counters.max_sequences == 3);  // in one pass
  CHECK(generate({}).completions.empty());
}

TEST_CASE("the bits are the same alone, in a batch, and with any number of threads") {
  const std::vector<kv::Request> requests{request_of(3, 12, 1), request_of(62, 5, 2),
                                          request_of(255, 3, 3), request_of(1, 9, 4)};
  const auto together = generate(requests);
  const int before = kv::num_threads();
  for (const int threads : {1, 3}) {
    kv::set_num_threads(threads);
    for (size_t i = 0; i < requests.size(); ++i) {
      CAPTURE(i);
      const auto alone = generate({requests[i]});
      CHECK(alone.completions[0].logits_xxh64 == together.completions[i].logits_xxh64);
      CHECK(alone.completions[0].tokens == together.completions[i].tokens);
    }
  }
  kv::set_num_threads(before);
}

TEST_CASE("K and V of old tokens never change") {
  // Per layer, the bytes of K and V of the first five tokens, whatever follows them.
  const std::vector<int32_t> tokens = request_of(90, 1).prompt;
  const auto kv_of_first_five = [&](size_t len) {
    std::vector<std::vector<float>> layers;
    const size_t width = shipped_model().config().kv_width();
    const auto keep = [&](const void* rows) {
      const auto* floats = static_cast<const float*>(rows);
      layers.emplace_back(floats, floats + 5 * width);
    };
    Watched attention([&](const kv::AttentionRows& rows) { keep(rows.k), keep(rows.v); }, {});
    attention.logits_after({tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(len)});
    return layers;
  };
  const auto alone = kv_of_first_five(5);
  CHECK(alone.size() == 2 * static_cast<size_t>(shipped_model().config().num_layers));
  for (const size_t len : {6u, 17u, 64u, 90u}) {
    CAPTURE(len);
    CHECK(kv_of_first_five(len) == alone);
  }
}

TEST_CASE("only the last layer can do without its old rows") {
  const std::vector<int32_t> tokens = request_of(12, 1).prompt;
  const auto logits_without_old_rows = [&](int wiped_layer) {
    Watched attention({}, [&](const kv::AttentionRows& rows) {
      if (rows.layer != wiped_layer) return;
      const size_t width = shipped_model().config().q_width();
      std::memset(rows.out, 0, sizeof(float) * width * static_cast<size_t>(rows.num_rows - 1));
    });
    return attention.logits_after(tokens);
  };
  const int last = shipped_model().config().num_layers - 1;
  const std::vector<float> whole = logits_without_old_rows(-1);
  CHECK(logits_without_old_rows(last) == whole);
  for (int layer = 0; layer < last; ++layer) {
    CAPTURE(layer);
    CHECK(logits_without_old_rows(layer) != whole);
  }
}

TEST_CASE("a request that cannot be served is refused before anything is computed") {
  const auto check = [&](const kv::Request& bad, const char* wanted, int max_seq_len = 0) {
    lesson01::NoCacheEngine engine(shipped_model(), {.max_seq_len = max_seq_len});
    const std::vector<kv::Request> requests{request_of(3, 2), bad};
    CHECK_THROWS_WITH_AS(engine.generate(requests), doctest::Contains(wanted), kv::UserError);
    CHECK(engine.rows_of_passes().empty());
  };
  check(request_with({}), "request 1: the prompt has no tokens");
  check(request_of(3, -1), "max_tokens is -1");
  check(request_with({2048}), "token id 2048 is not in the");
  check(request_with({-1}), "token id -1 is not in the");
  check(request_of(2000, 50), "2,049 positions, the model has 2,048");
  check(request_of(10, 8), "room for 17 tokens, but --max-seq-len is 16", 16);
  kv::Request cold = request_of(3, 2);
  cold.sampling.temperature = -1.0f;
  check(cold, "temperature");
  CHECK(generate({request_of(9, 8)}, 16).completions[0].tokens.size() == 8);  // exactly fits
}

TEST_CASE("a stop token ends a request and a callback cancels one") {
  const auto free_run = generate({request_of(4, 10)});
  kv::Request stopping = request_of(4, 10);
  stopping.stop_token_ids = {free_run.completions[0].tokens[3]};
  const auto stopped = generate({stopping}).completions[0];
  CHECK(stopped.finish == kv::FinishReason::kStop);
  CHECK(stopped.tokens.size() <= 4);
  CHECK(stopped.tokens.back() == stopping.stop_token_ids[0]);

  const auto cancelled = generate({request_of(4, 10), request_of(6, 10, 1)}, 0,
                                  [](size_t request, int32_t) { return request != 0; });
  CHECK(cancelled.completions[0].finish == kv::FinishReason::kCancelled);
  CHECK(cancelled.completions[0].tokens.size() == 1);
  CHECK(cancelled.completions[1].finish == kv::FinishReason::kLength);
  CHECK(cancelled.completions[1].tokens.size() == 10);
}

TEST_CASE("the same seed draws the same tokens") {
  kv::Request request = request_of(4, 30);
  request.sampling = {.temperature = 1.0f, .top_k = 50, .top_p = 0.95f, .seed = 7};
  const auto first = generate({request}).completions[0].tokens;
  CHECK(generate({request}).completions[0].tokens == first);
  request.sampling.seed = 8;
  CHECK(generate({request}).completions[0].tokens != first);
}

TEST_CASE("an engine on plain kernels writes the text of one on fast kernels, with other bits") {
  kv::Model& model = shipped_model();
  const auto with_fast = generate({request_of(4, 20)}).completions[0];
  model.set_kernel(kv::Kernel::kPlain);
  const auto with_plain = generate({request_of(4, 20)}).completions[0];
  model.set_kernel(kv::Kernel::kFast);
  CHECK(with_plain.tokens == with_fast.tokens);
  CHECK(with_plain.logits_xxh64 != with_fast.logits_xxh64);
}
