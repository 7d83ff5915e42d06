// The promise on CUDA: every lesson, equal bits; alone, together, and replayed from a graph.
#include <doctest/doctest.h>

#include <algorithm>

#include "common/model/tokenizer.h"
#include "ladder.h"
#include "prompts.h"

namespace {
const std::filesystem::path kTiny = KV_SOURCE_DIR "/models/tiny";
}

TEST_CASE("every lesson gives the same bits on CUDA") {
  kv::Model model = kv::Model::load(kTiny, kv::Device::kCuda);
  const auto tokenizer = kv::Tokenizer::load(kTiny);
  std::vector<kv::Request> requests(4);
  const std::string texts[] = {"Once upon a time", "One day, a fox", std::string(900, 'a'), "I"};
  const int lengths[] = {40, 9, 5, 1};
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].prompt = tokenizer.encode(texts[i]);
    requests[i].max_tokens = lengths[i];
  }
  const auto rungs = ladder::climb(model, requests, ladder::lessons(), {});
  REQUIRE(rungs.size() == ladder::lessons().size());
  CHECK(ladder::first_mismatch(rungs) == std::nullopt);
  model.set_kernel(kv::Kernel::kPlain);
  const auto plain = ladder::climb(model, requests, ladder::lessons(), {});
  CHECK(ladder::first_mismatch(plain) == std::nullopt);
  CHECK(plain[0].digest != rungs[0].digest);
  model.set_kernel(kv::Kernel::kFast);
  for (const auto& lesson : ladder::lessons()) {
    CAPTURE(lesson.number);
    for (size_t i = 0; i < requests.size(); ++i) {
      CAPTURE(i);
      const auto alone = lesson.make_engine(model, {})->generate({&requests[i], 1});
      CHECK(alone.completions[0].logits_xxh64 == rungs[0].result.completions[i].logits_xxh64);
    }
  }
}

TEST_CASE("500 prompts, eight configurations of memory, no differing bit on CUDA") {
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
