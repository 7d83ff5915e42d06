// The forward pass on the CPU against Hugging Face transformers in fp32, from the same files.
//
// Both compute in fp32, in different orders. Through two to six layers that gives relative errors
// near 1e-6. Tripling epsilon gives up to 1e-4 in a row, a theta that is 0.02 % off 2e-4, and a
// swapped half or a wrong scale far more. The limit is 1e-4. Fast and plain attention differ by the
// order of their sums alone: a tenth of that.

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "tests/golden/golden_values.h"

namespace {

constexpr double kTolerance = 1e-4;

/// Returns the logits of all sequences.
std::vector<float> check_model(kv::Model& model, const golden::Values& want) {
  lesson01::CausalAttention attention(model.config());
  const auto vocab = static_cast<size_t>(model.config().vocab_size);
  const std::vector<float> together = golden::logits_of(model, attention, want.sequences);

  size_t first = 0;
  double worst = 0;
  for (const golden::Sequence& sequence : want.sequences) {
    CAPTURE(sequence.ids.size());
    const std::vector<float> alone = golden::logits_of(model, attention, {&sequence, 1});
    const golden::Error error = golden::error_of(alone, sequence.logits);
    CHECK(error.norm <= kTolerance);
    CHECK(error.largest <= kTolerance);
    worst = std::max(worst, error.norm);
    for (size_t row = 0; row < sequence.rows.size(); ++row) {  // no bad row hides among good ones
      CAPTURE(sequence.rows[row]);
      const auto part = [&](const std::vector<float>& all) {
        return std::span(all).subspan(row * vocab, vocab);
      };
      CHECK(golden::error_of(part(alone), part(sequence.logits)).norm <= kTolerance);
    }
    // One pass with all sequences, or a pass for each: the same bits.
    REQUIRE(first + alone.size() <= together.size());
    CHECK(std::equal(alone.begin(), alone.end(), together.begin() + static_cast<int64_t>(first)));
    first += alone.size();
  }
  CHECK(first == together.size());
  MESSAGE("worst relative error " << worst);
  return together;
}

void check_cpu(const std::string& name) {
  CAPTURE(name);
  const golden::Values want = golden::load_values(name);
  REQUIRE(want.sequences.size() >= 5);
  kv::Model model = kv::Model::load(golden::model_folder(name), kv::Device::kCpu);
  const std::vector<float> fast = check_model(model, want);
  model.set_kernel(kv::Kernel::kPlain);
  const std::vector<float> plain = check_model(model, want);
  CHECK(plain != fast);
  CHECK(golden::error_of(plain, fast).largest <= kTolerance / 10);
}

}  // namespace

TEST_CASE("golden logits on the CPU: every shape, dtype and way to write a model") {
  check_cpu("gqa1_dim64_fp32");     // multi-head, old config
  check_cpu("gqa2_dim128_bf16");    // head_dim 128 by default, tied
  check_cpu("gqa4_dim80_bf16");     // in three shards
  check_cpu("gqa8_dim64_fp16");     // tied with a head in the file
  check_cpu("gqa2_dim96_bf16");     // untied
  check_cpu("gqa4_dim128_fp16");    // old config
  check_cpu("gqa2_dim64_windows");  // a sliding window of 100 in two of three layers
}

TEST_CASE("golden logits on the CPU: the model that ships" * doctest::test_suite("sweep")) {
  check_cpu("tiny");
}

TEST_CASE("the golden check can fail: it sees NaN, a missing row and a small error") {
  const std::vector<float> want = {1.0f, -2.0f, 3.0f};
  CHECK(golden::error_of(want, want).norm <= 0.0);
  const std::vector<float> nan = {1.0f, std::numeric_limits<float>::quiet_NaN(), 3.0f};
  CHECK_FALSE(golden::error_of(nan, want).norm <= kTolerance);
  CHECK_FALSE(golden::error_of(nan, want).largest <= kTolerance);
  CHECK_FALSE(golden::error_of(std::span(want).first(2), want).norm <= kTolerance);
  const std::vector<float> off = {1.0f, -2.0f, 3.001f};
  CHECK_FALSE(golden::error_of(off, want).norm <= kTolerance);
  CHECK_FALSE(golden::error_of(off, want).largest <= kTolerance);
}
