// The forward pass on CUDA, bf16 with fp32 sums, against Hugging Face transformers in fp32.
//
// The limit is twice the error that transformers' own bf16 run has against its fp32 run, over the
// same sequences (about 1 %): ours rounds at the same places, or at fewer. Plain attention does not
// round the weights of V, fast attention does: between the two that error once.

#include <doctest/doctest.h>

#include <string>

#include "tests/golden/golden_values.h"

namespace {

/// Returns the logits of all sequences.
std::vector<float> check_model(kv::Model& model, const golden::Values& values) {
  lesson01::CausalAttention attention(model.config());
  std::vector<float> want;
  std::vector<float> got;
  for (const golden::Sequence& sequence : values.sequences) {
    const std::vector<float> alone = golden::logits_of(model, attention, {&sequence, 1});
    REQUIRE(alone.size() == sequence.logits.size());
    got.insert(got.end(), alone.begin(), alone.end());
    want.insert(want.end(), sequence.logits.begin(), sequence.logits.end());
  }
  const double error = golden::error_of(got, want).norm;
  MESSAGE("relative error " << error << ", transformers in bf16 " << values.bf16_error);
  CHECK(error <= 2 * values.bf16_error);
  // One pass with all sequences, or a pass for each: the same bits.
  CHECK(golden::logits_of(model, attention, values.sequences) == got);
  return got;
}

void check_cuda(const std::string& name) {
  CAPTURE(name);
  const golden::Values values = golden::load_values(name);
  REQUIRE(values.sequences.size() >= 5);
  REQUIRE(values.bf16_error > 0);
  kv::Model model = kv::Model::load(golden::model_folder(name), kv::Device::kCuda);
  const std::vector<float> fast = check_model(model, values);
  model.set_kernel(kv::Kernel::kPlain);
  const std::vector<float> plain = check_model(model, values);
  CHECK(plain != fast);
  CHECK(golden::error_of(plain, fast).norm <= values.bf16_error);
}

}  // namespace

TEST_CASE("golden logits on CUDA: every head_dim and grouping, and weights of every dtype") {
  for (const char* name : {"gqa1_dim64_fp32", "gqa2_dim128_bf16", "gqa4_dim80_bf16",
                           "gqa8_dim64_fp16", "gqa2_dim96_bf16", "gqa4_dim128_fp16"}) {
    check_cuda(name);
  }
  check_cuda("gqa2_dim64_windows");  // a sliding window of 100 in two of three layers
}

TEST_CASE("golden logits on CUDA: the model that ships" * doctest::test_suite("sweep")) {
  check_cuda("tiny");
}
