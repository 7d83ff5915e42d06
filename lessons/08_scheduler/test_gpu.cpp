// Lesson 08 on a GPU: mixed passes, preemption and resumption give the bits of lesson 02.

#include <doctest/doctest.h>

#include <vector>

#include "engine.h"
#include "lessons/02_flat_cache/engine.h"
#include "tests/support/shipped_model.h"

using kvtest::request_of;

TEST_CASE("ragged passes, small pools and chunks change no bit on CUDA") {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCuda);
  std::vector<kv::Request> requests;
  std::vector<lesson08::Arrival> arrivals;
  for (int i = 0; i < 24; ++i) {
    kv::Request request = request_of(i % 2 == 0 ? 40 : 0, 1 + i % 13);
    const kv::Request own = request_of(1 + (i * 7) % 60, 0, i + 1);
    request.prompt.insert(request.prompt.end(), own.prompt.begin(), own.prompt.end());
    requests.push_back(request);
    arrivals.push_back({.pass = i / 6 * 2});
  }
  const auto flat = lesson02::make_engine(model, {})->generate(requests);
  int64_t preemptions = 0;
  for (const int num_blocks : {9, 16, 200}) {
    for (const int budget : {24, 512}) {
      for (const bool separate : {false, true}) {
        CAPTURE(num_blocks);
        CAPTURE(budget);
        CAPTURE(separate);
        lesson08::ServingEngine engine(model,
                                       {.num_blocks = num_blocks, .separate_blocks = separate},
                                       {.scheduler = {.max_tokens_per_pass = budget}});
        const auto result = engine.serve(requests, arrivals);
        preemptions += result.num_preemptions;
        for (size_t i = 0; i < requests.size(); ++i) {
          CHECK(result.generated.completions[i].tokens == flat.completions[i].tokens);
          CHECK(result.generated.completions[i].logits_xxh64 == flat.completions[i].logits_xxh64);
        }
      }
    }
  }
  CHECK(preemptions > 0);
}
