// The parts of the benchmark: ways to keep K and V, and their distance from fp32.

#include "tests/support/readable.h"  // before the checks

#include "cli/rounded_attention.h"
#include "tests/support/shipped_model.h"

using namespace lesson14;

namespace {

std::vector<float> logits_with(Keep keep, float factor, std::span<const int32_t> tokens) {
  kv::Model& model = kvtest::shipped_model();
  RoundedAttention attention(model.config(), keep, factor);
  return logits_of(model, attention, tokens);
}

}  // namespace

TEST_CASE("keeping K and V in FP8 in one pass is what a model does that rounds its rows") {
  kv::Model& model = kvtest::shipped_model();
  const std::vector<int32_t> tokens = kvtest::request_of(40, 1).prompt;
  lesson01::CausalAttention plain(model.config());
  const auto exact = logits_of(model, plain, tokens);
  CHECK(logits_with(Keep::kFp32, 1, tokens) == exact);
  CHECK(logits_with(Keep::kFp32, 64, tokens) == exact);
  model.set_kv_format(kv::KvFormat::kFp8);
  const auto rounded = logits_of(model, plain, tokens);
  model.set_kv_format(kv::KvFormat::kActivations);
  CHECK(rounded != exact);
  CHECK(logits_with(Keep::kTokenAndHead, 1, tokens) == rounded);
  CHECK(logits_with(Keep::kTokenAndHead, 64, tokens) == rounded);  // a power of two costs nothing
  CHECK(logits_with(Keep::kOne, 1, tokens) != logits_with(Keep::kOne, 64, tokens));
}

TEST_CASE("the first text's scale stays: what the next text gets depends on it") {
  kv::Model& model = kvtest::shipped_model();
  const auto first = kvtest::request_of(9, 1).prompt, second = kvtest::request_of(30, 1).prompt;
  for (const Keep keep : {Keep::kFirstTensor, Keep::kFirstHead}) {
    RoundedAttention after_first(model.config(), keep), alone(model.config(), keep);
    logits_of(model, after_first, std::span(first).first(1));
    CHECK(logits_of(model, after_first, second) != logits_of(model, alone, second));
  }
  RoundedAttention after_first(model.config(), Keep::kTokenAndHead);
  logits_of(model, after_first, first);
  CHECK(logits_of(model, after_first, second) == logits_with(Keep::kTokenAndHead, 1, second));
}

TEST_CASE("a distance is a share of the norm, and a perplexity that of the tokens that came") {
  const std::vector<float> exact{1, 0, 0, 3}, mine{1, 0, 0, 4}, even{0, 0, 0, 0};
  const std::vector<int32_t> tokens{0, 1};
  Distance distance;
  distance.add(mine, exact, tokens);  // the last token's next one is not known
  CHECK(distance.num_tokens == 1);
  CHECK(distance.relative_error() == 0);
  CHECK(distance.num_same == 1);
  Distance flat;
  flat.add(even, exact, tokens);
  CHECK(flat.relative_error() == 1);
  CHECK(flat.perplexity() == doctest::Approx(2));
}
