// The promise on CUDA: every lesson, equal bits; alone, together, and replayed from a graph.
#include <doctest/doctest.h>

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
  ladder::check_prompts(model, static_cast<int>(kvtest::number_from("KV_PROMPTS", 500)), 1);
}
