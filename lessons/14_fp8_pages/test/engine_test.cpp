// The server over FP8 pages: whatever the scheduler does, its bits are those of a flat cache in the
// activation dtype whose K and V were rounded through e4m3.

#include "engine.h"

#include "served_fp8.h"

using namespace lesson14_test;

namespace {

kv::Model tiny(kv::KvFormat format) {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCpu);
  model.set_kv_format(format);
  return model;
}

/// Qwen3-0.6B, as far as its cache goes.
kv::ModelConfig qwen3_06b() {
  kv::ModelConfig config;
  config.num_layers = 28, config.num_kv_heads = 8, config.head_dim = 128;
  return config;
}

}  // namespace

TEST_CASE("pools, blocks, chunks, preemption, caching: FP8 pages have the bits of rounded rows" *
          doctest::test_suite("sweep")) {
  kv::Model model = tiny(kv::KvFormat::kFp8);
  for (const auto kernel : {kv::Kernel::kFast, kv::Kernel::kPlain}) {
    model.set_kernel(kernel);
    check_configurations(model, kernel == kv::Kernel::kFast ? 24 : 12);
  }
}

TEST_CASE("FP8 gives other bits than the activations, and the engine serves both") {
  kv::Model model = tiny(kv::KvFormat::kActivations);
  const auto requests = lesson08_test::mixed(6);
  const auto exact = lesson08_test::flat(model, requests);
  kvtest::check_equal(lesson14::make_engine(model, {})->generate(requests), exact);
  model.set_kv_format(kv::KvFormat::kFp8);
  const auto rounded = lesson08_test::flat(model, requests);
  CHECK(kv::combined_digest(rounded.completions) != kv::combined_digest(exact.completions));
  kvtest::check_equal(lesson14::make_engine(model, {})->generate(requests), rounded);
}

TEST_CASE("in a model with windows, too") {
  kv::Model model = tiny(kv::KvFormat::kFp8);
  model.set_windows({0, 17, 17, 0, 1, 64});
  const auto requests = lesson08_test::mixed(8, 3);
  lesson14::Fp8Engine engine(model, {.block_size = 4, .num_blocks = 60});
  kvtest::check_equal(engine.generate(requests), lesson08_test::flat(model, requests));
}

TEST_CASE("FP8 holds nearly twice the blocks in the memory of bf16") {
  CHECK(lesson14::block_bytes(qwen3_06b(), 16, kv::KvFormat::kActivations) == 1'835'008);
  CHECK(lesson14::block_bytes(qwen3_06b(), 16, kv::KvFormat::kFp8) == 924'672);
  CHECK(lesson14::fp8_blocks_in(1000, qwen3_06b(), 16) == 1984);
  CHECK(lesson14::fp8_blocks_in(0, qwen3_06b(), 16) == 0);
  CHECK(lesson14::fp8_blocks_in(INT32_MAX - 1, qwen3_06b(), 16) == INT32_MAX - 1);
}

TEST_CASE("in the same memory FP8 runs more at once and preempts less") {
  kv::Model model = tiny(kv::KvFormat::kActivations);
  const auto requests = lesson08_test::mixed(24);
  const lesson03::PagedOptions options{.num_blocks = 18};
  lesson08::ServingEngine bf16(model, options);
  const auto before = bf16.serve(requests, {});
  model.set_kv_format(kv::KvFormat::kFp8);
  lesson14::Fp8Engine fp8(model, options);
  const auto now = fp8.serve(requests, {});
  CHECK(fp8.manager()->pool().num_blocks() == lesson14::fp8_blocks_in(18, model.config(), 16));
  CHECK(now.generated.counters.max_sequences > before.generated.counters.max_sequences);
  CHECK(now.num_preemptions < before.num_preemptions);
  CHECK(now.generated.counters.passes < before.generated.counters.passes);
}
