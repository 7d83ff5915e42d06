// Lesson 06 on a GPU: chunks that start after a cached prefix give the bits of lesson 02, and the
// blocks of a hit hold the bits that computing anew gives.

#include <doctest/doctest.h>

#include <vector>

#include "compare_blocks.h"
#include "engine.h"
#include "hits.h"
#include "lessons/02_flat_cache/engine.h"
#include "tests/support/kv_shape.h"
#include "tests/support/same_bits.h"
#include "tests/support/shipped_model.h"

namespace {

using kvtest::shape;
using kvtest::with_system_prompt;
using lesson03::PagedKvCache;
using lesson06::BlockPair;
using lesson06::compare_blocks;

kv::Model& model() {
  static kv::Model kModel = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCuda);
  return kModel;
}

/// Sets one bf16 of a row of K or V.
void set(void* at, int64_t element, uint16_t value) {
  kv::copy_to_device(static_cast<uint16_t*>(at) + element, &value, sizeof value, model().stream());
}

}  // namespace

TEST_CASE("compare_blocks counts every element that differs, in K and V of all layers") {
  struct Case {
    int kv_heads, head_dim, block_size;
    int guard_rows;
  };
  for (const Case c : {Case{8, 128, 16, 0}, Case{2, 64, 256, 1}, Case{3, 5, 3, 0},
                       Case{1, 80, 1, 0}, Case{3, 5, 1, 1}}) {
    CAPTURE(c.head_dim);
    CAPTURE(c.block_size);
    CAPTURE(c.guard_rows);
    constexpr int kLayers = 3;
    const kv::ModelConfig config = shape(kLayers, c.kv_heads, c.head_dim);
    const kv::Stream& stream = model().stream();
    PagedKvCache a(config, stream, 4, c.block_size);
    PagedKvCache b(config, stream, 7, c.block_size, c.guard_rows);
    a.fill(0, stream), b.fill(0, stream);
    const int64_t all = int64_t{c.block_size} * c.kv_heads * c.head_dim;
    set(b.block(0, 6).k, 0, 0x3F80);                  // the first element of all
    set(b.block(kLayers - 1, 6).v, all - 1, 0x4000);  // and the last
    set(b.block(1, 5).v, all - 1, 0x8000);            // -0.0: equal as a number
    set(b.block(2, 0).k, 0, 0x3F80);                  // in a block that no pair names
    const std::vector<uint16_t> ones(static_cast<size_t>(all), 0x0001);
    kv::copy_to_device(b.block(1, 3).k, ones.data(), ones.size() * 2, stream);
    const std::vector<BlockPair> pairs{{0, 6}, {3, 5}, {1, 4}, {2, 6}, {0, 3}};
    CHECK(compare_blocks({.first = &a, .second = &b, .pairs = pairs}, stream) ==
          std::vector<int64_t>{2, 1, 0, 2, all});
    CHECK(compare_blocks({.first = &a, .second = &b, .pairs = {}}, stream).empty());
  }
}

TEST_CASE("compare_blocks finds a difference past 2^31 elements") {
  // Qwen3-0.6B's shape, 4,700 blocks of 16: K and V have 2.16e9 elements each.
  constexpr int kLayers = 28, kBlocks = 4'700;
  PagedKvCache cache(shape(kLayers, 8, 128), model().stream(), kBlocks, 16);
  cache.fill(0, model().stream());
  set(cache.block(kLayers - 1, kBlocks - 1).v, 16 * 8 * 128 - 1, 1);
  const std::vector<BlockPair> pairs{{0, kBlocks - 1}, {kBlocks - 2, 0}};
  CHECK(compare_blocks({.first = &cache, .second = &cache, .pairs = pairs}, model().stream()) ==
        std::vector<int64_t>{1, 0});
}

TEST_CASE("the blocks of a hit hold the bits that computing anew gives") {
  lesson06_test::check_hits(model());
}

TEST_CASE("cached prefixes change no bit on CUDA, in any block size") {
  const auto flat = [&](const kv::Request& request) {
    return lesson02::make_engine(model(), {})->generate({&request, 1});
  };
  for (const int block_size : {1, 16, 64}) {
    CAPTURE(block_size);
    lesson06::PrefixEngine engine(model(),
                                  {.block_size = block_size, .num_blocks = 512 / block_size});
    for (const int own : {1, 3, 40, 1}) {
      CAPTURE(own);
      const kv::Request request = with_system_prompt(130, own, own, 12);
      kvtest::check_equal(engine.generate({&request, 1}), flat(request));
    }
    CHECK(engine.num_cached_tokens()[0] >= 128);
  }
}
