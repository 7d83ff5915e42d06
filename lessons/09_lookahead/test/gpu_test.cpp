// Lesson 09 on a GPU: a pass that checks guesses gives each token the bits that a pass of its own
// gives it, on the fast kernels and on the plain ones.

#include "looked_ahead.h"

namespace {

kv::Model& model_on_gpu() {
  static kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCuda);
  return model;
}

}  // namespace

TEST_CASE("blocks, chunks, preemption, prefix hits, any drafter: the same bits on CUDA") {
  for (const auto kernel : {kv::Kernel::kFast, kv::Kernel::kPlain}) {
    model_on_gpu().set_kernel(kernel);
    lesson09_test::check_configurations(model_on_gpu(), 16);
  }
  model_on_gpu().set_kernel(kv::Kernel::kFast);
}

TEST_CASE("1 to 40 guesses at once, some of them right: the same bits on CUDA") {
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
