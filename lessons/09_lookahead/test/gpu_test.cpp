// Lesson 09 on a GPU: a pass that checks guesses gives each token the bits of a pass of its own, on
// the fast kernels and on the plain ones. Guesses are judged on the device.

#include "judged.h"
#include "kernels/argmax.h"
#include "looked_ahead.h"

namespace {

constexpr auto kCuda = kv::Device::kCuda;

kv::Model& model_on_gpu() {
  static kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCuda);
  return model;
}

}  // namespace

TEST_CASE("the first wrong guess takes the choices of its row and of those after it" *
          doctest::test_suite("kernel")) {
  lesson09_test::check_four_sequences(kCuda);
}

TEST_CASE("no row, one row, one guess: what is left of the choices" *
          doctest::test_suite("kernel")) {
  lesson09_test::check_few_rows(kCuda);
}

TEST_CASE("guesses are judged after the kernel before has chosen" * doctest::test_suite("kernel")) {
  const lesson09_test::FourSequences four;
  const auto num_rows = four.chosen.size() + 1;
  constexpr size_t kVocab = 16;
  std::vector<float> logits(num_rows * kVocab);
  for (size_t row = 0; row < num_rows; ++row) {
    logits[row * kVocab + static_cast<size_t>(row + 1 < num_rows ? four.chosen[row] : 11)] = 1;
  }
  const kv::Stream stream(kCuda);
  const auto on_device = kv::to_device<float>(logits, stream);
  const auto chosen = kv::to_device<int32_t>(lesson09_test::Tokens(num_rows, 3), stream);
  const auto choose = [&] {
    kv::argmax({.logits = on_device.as<const float>(),
                .num_rows = static_cast<int>(num_rows),
                .vocab_size = kVocab,
                .out = chosen.as<int32_t>()},
               stream);
    return chosen.as<int32_t>();
  };
  lesson09_test::Tokens wanted = four.left;
  wanted.push_back(11);  // after the last row
  CHECK(lesson09_test::left_after(stream, four.guesses, choose) == wanted);
}

TEST_CASE("a few sequences, some with more guesses than a CTA has threads: what is left" *
          doctest::test_suite("kernel")) {
  lesson09_test::check_judged(kCuda, {2, 9}, {4, 300});
}

TEST_CASE("many sequences, few guesses or many, all right, none, some: what is left on the GPU") {
  lesson09_test::check_judged(kCuda, {0, 1, 40, 1000}, {0, 1, 4, 40});
}

TEST_CASE("blocks, chunks, preemption, prefix hits, any drafter: the same bits on CUDA" *
          doctest::test_suite("sweep")) {
  for (const auto kernel : {kv::Kernel::kFast, kv::Kernel::kPlain}) {
    model_on_gpu().set_kernel(kernel);
    lesson09_test::check_configurations(model_on_gpu(), 16);
  }
  model_on_gpu().set_kernel(kv::Kernel::kFast);
}

TEST_CASE("guesses that the GPU judges: the same tokens, and the host gets them alone") {
  lesson09_test::check_judged_on_device(model_on_gpu(), {4});
}

TEST_CASE("1 to 40 guesses at once, some of them right: the same bits on CUDA" *
          doctest::test_suite("sweep")) {
  std::vector<kv::Request> requests;
  for (const int prompt : {1, 15, 63, 64, 300}) {
    requests.push_back(kvtest::request_of(prompt, 60, prompt));
  }
  for (const auto kernel : {kv::Kernel::kFast, kv::Kernel::kPlain}) {
    model_on_gpu().set_kernel(kernel);
    const auto wanted = lesson08_test::flat(model_on_gpu(), requests);
    for (const int num_guesses : {1, 2, 3, 4, 7, 8, 15, 16, 40}) {
      CAPTURE(num_guesses);
      lesson09::LookaheadEngine engine(model_on_gpu(), {}, {}, {.num_guesses = num_guesses},
                                       std::make_unique<lesson09_test::Oracle>(
                                           lesson09_test::Oracle::Kind::kMixed, requests, wanted));
      kvtest::check_equal(engine.generate(requests), wanted);
    }
  }
  model_on_gpu().set_kernel(kv::Kernel::kFast);
}

TEST_CASE("an engine that has served before replays the passes that check guesses as graphs") {
  kv::Model& model = model_on_gpu();
  const std::vector<kv::Request> requests{kvtest::request_of(40, 61)};
  const auto wanted = lesson08_test::flat(model, requests);
  lesson09::LookaheadEngine engine(model, {.num_blocks = 64}, {.caching = false}, {},
                                   std::make_unique<lesson09_test::Oracle>(
                                       lesson09_test::Oracle::Kind::kRight, requests, wanted));
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    const int64_t replays = model.graph_replays();
    const auto found = engine.generate(requests);
    kvtest::check_equal(found, wanted);
    // All but the prompt's: eleven of five rows, and one of the last token.
    if (round == 2) CHECK(model.graph_replays() - replays == found.counters.passes - 1);
  }
}
