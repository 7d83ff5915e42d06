// Lesson 07 on a GPU: poison, revival and eviction change no bit.

#include <doctest/doctest.h>

#include <vector>

#include "engine.h"
#include "lessons/02_flat_cache/engine.h"
#include "poison_blocks.h"
#include "tests/support/shipped_model.h"

using kvtest::request_of;

TEST_CASE("poison_blocks fills K and V of the named blocks in all layers and nothing else") {
  const kv::Stream stream(kv::Device::kCuda);
  for (const int head_dim : {5, 64}) {
    CAPTURE(head_dim);
    kv::ModelConfig config;
    config.num_layers = 3, config.num_heads = config.num_kv_heads = 3;
    config.head_dim = head_dim;
    lesson03::PagedKvCache cache(config, stream, 7, 5);
    cache.fill(0, stream);
    kv::DeviceBuffer scratch;
    const std::vector<int32_t> ids{6, 2};
    lesson07::poison_blocks_cuda({.cache = &cache, .block_ids = ids, .scratch = &scratch}, stream);
    std::vector<uint16_t> words(static_cast<size_t>(5 * 3 * head_dim));
    for (int layer = 0; layer < 3; ++layer) {
      for (int32_t id = 0; id < 7; ++id) {
        for (const void* at : {cache.block(layer, id).k, cache.block(layer, id).v}) {
          kv::copy_to_host(words.data(), at, words.size() * 2, stream);
          const uint16_t wanted = id == 6 || id == 2 ? 0xFFFF : 0;
          CHECK(words == std::vector<uint16_t>(words.size(), wanted));
        }
      }
    }
  }
}

TEST_CASE("found, revived, evicted and computed again on CUDA: the bits of lesson 02") {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCuda);
  lesson07::CachingEngine engine(model, {.block_size = 8, .num_blocks = 12}, {.poison = true});
  int64_t found = 0;
  for (int i = 0; i < 10; ++i) {
    CAPTURE(i);
    kv::Request request = request_of(24, 8);
    const kv::Request tail = request_of(5 + i % 3, 0, i % 4);
    request.prompt.insert(request.prompt.end(), tail.prompt.begin(), tail.prompt.end());
    const auto flat = lesson02::make_engine(model, {})->generate({&request, 1});
    const auto result = engine.generate({&request, 1});
    CHECK(result.completions[0].tokens == flat.completions[0].tokens);
    CHECK(result.completions[0].logits_xxh64 == flat.completions[0].logits_xxh64);
    found += result.counters.named("cache_hit_tokens");
  }
  CHECK(found > 0);
}
