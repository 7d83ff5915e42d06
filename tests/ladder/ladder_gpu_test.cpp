// The promise on CUDA: every lesson, equal bits; alone, together, and replayed from a graph.
#include <doctest/doctest.h>

#include <algorithm>

#include "ladder.h"
#include "prompts.h"
#include "qwen3/tokenizer.h"
#include "tests/support/windowed_model.h"
#include "workload.h"

namespace {
const std::filesystem::path kTiny = KV_SOURCE_DIR "/models/tiny";
}

TEST_CASE("every lesson gives the same bits on CUDA, fast and plain, together and alone") {
  kv::Model model = kv::Model::load(kTiny, kv::Device::kCuda);
  const auto tokenizer = kv::Tokenizer::load(kTiny);
  kv::GenerateOptions options;
  options.max_tokens = 96;
  for (const auto kernel : {kv::Kernel::kFast, kv::Kernel::kPlain}) {
    model.set_kernel(kernel);
    const auto server = ladder::server_requests(options, tokenizer, model.config()).workload;
    const auto busy =
        ladder::climb(model, server, ladder::lessons(), {256, ladder::kServerKvTokens});
    REQUIRE(busy.size() == ladder::lessons().size());
    CHECK(ladder::first_mismatch(busy) == std::nullopt);
    const auto simple = ladder::simple_requests(options, tokenizer, model.config()).workload;
    const auto rungs = ladder::climb(model, simple, ladder::lessons(), {256});
    CHECK(ladder::first_mismatch(rungs) == std::nullopt);
    const bool fast = kernel == kv::Kernel::kFast;
    // Others are another arithmetic: kArithmetic of qwen3/fingerprint.cpp grows then.
    CHECK(rungs[0].digest == (fast ? 0xe6124379e34b945du : 0x7bf3ec4d98bb0720u));
    for (size_t i = 0; fast && i < simple.requests.size(); ++i) {
      const auto alone = ladder::lessons().back().make_engine(model, {});
      const auto found = alone->generate({&simple.requests[i], 1}).completions[0];
      CHECK(found.logits_xxh64 == rungs[0].completions[i].logits_xxh64);
    }
  }
}

TEST_CASE("every lesson gives the same bits on CUDA in a model with sliding windows") {
  kv::GenerateOptions options;
  options.max_tokens = 96;
  for (const int window : {1, 17, 64, 100}) {
    CAPTURE(window);
    const kvtest::WindowedModel windowed(window);
    kv::Model model = kv::Model::load(windowed.folder(), kv::Device::kCuda);
    const auto tokenizer = kv::Tokenizer::load(windowed.folder());
    for (const auto kernel : {kv::Kernel::kFast, kv::Kernel::kPlain}) {
      model.set_kernel(kernel);
      const auto server = ladder::server_requests(options, tokenizer, model.config()).workload;
      const auto busy =
          ladder::climb(model, server, ladder::lessons(), {256, ladder::kServerKvTokens});
      CHECK(ladder::first_mismatch(busy) == std::nullopt);
      if (window == 17) ladder::check_prompts(model, 100, 1);
    }
  }
}

TEST_CASE("many prompts, eight configurations of memory, no differing bit on CUDA") {
  kv::Model model = kv::Model::load(kTiny, kv::Device::kCuda);
  const auto prompts = static_cast<int>(kvtest::number_from("KV_PROMPTS", 500));
  ladder::check_prompts(model, prompts, 1);
  model.set_kernel(kv::Kernel::kPlain);
  ladder::check_prompts(model, std::min(prompts, 100), 1);
}

TEST_CASE("a graph of one kernel is not replayed for the other") {
  kv::Model model = kv::Model::load(kTiny, kv::Device::kCuda);
  const auto engine = ladder::lessons().back().make_engine(model, {});
  kv::Request request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 20;
  uint64_t digests[4];  // fast, plain, fast, plain; with the same arrays and cache
  for (int i = 0; i < 4; ++i) {
    model.set_kernel(i % 2 == 0 ? kv::Kernel::kFast : kv::Kernel::kPlain);
    digests[i] = engine->generate({&request, 1}).completions[0].logits_xxh64;
  }
  CHECK(digests[0] == digests[2]);
  CHECK(digests[1] == digests[3]);
  CHECK(digests[0] != digests[1]);
}
