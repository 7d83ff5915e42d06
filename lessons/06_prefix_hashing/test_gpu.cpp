// Lesson 06 on a GPU: chunks that start behind a cached prefix give the bits of lesson 02.

#include <doctest/doctest.h>

#include <vector>

#include "engine.h"
#include "lessons/02_flat_cache/engine.h"
#include "tests/support/shipped_model.h"

using kvtest::request_of;

TEST_CASE("cached prefixes change no bit on CUDA, in any block size and in separate blocks") {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCuda);
  const auto flat = [&](const kv::Request& request) {
    return lesson02::make_engine(model, {})->generate({&request, 1});
  };
  for (const int block_size : {1, 16, 64}) {
    for (const bool separate : {false, true}) {
      CAPTURE(block_size);
      CAPTURE(separate);
      lesson06::PrefixEngine engine(
          model,
          {.block_size = block_size, .num_blocks = 512 / block_size, .separate_blocks = separate});
      for (const int own : {1, 3, 40, 1}) {
        CAPTURE(own);
        kv::Request request = request_of(130, 12);
        const kv::Request tail = request_of(own, 0, own);
        request.prompt.insert(request.prompt.end(), tail.prompt.begin(), tail.prompt.end());
        const auto result = engine.generate({&request, 1});
        CHECK(result.completions[0].tokens == flat(request).completions[0].tokens);
        CHECK(result.completions[0].logits_xxh64 == flat(request).completions[0].logits_xxh64);
      }
      CHECK(engine.num_cached_tokens()[0] >= 128);
    }
  }
}
