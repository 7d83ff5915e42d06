// Layers that forget, and the bits of lesson 01 and 08.

#include "windowed.h"

#include "common/error.h"

TEST_CASE("windows, blocks, chunks, preemption, hits, resets: the bits of a flat cache" *
          doctest::test_suite("sweep")) {
  for (const int window : {1, 17, 64, 1000}) {
    CAPTURE(window);
    const kvtest::WindowedModel windowed(window);
    kv::Model model = kv::Model::load(windowed.folder(), kv::Device::kCpu);
    for (const auto kernel : {kv::Kernel::kFast, kv::Kernel::kPlain}) {
      model.set_kernel(kernel);
      lesson10_test::check_configurations(model, kernel == kv::Kernel::kFast ? 24 : 12);
    }
  }
}

TEST_CASE("a model without windows is served as by lesson 08: the same blocks and passes") {
  const auto requests = lesson08_test::mixed(12, 5);
  kv::Model& model = kvtest::shipped_model();
  const lesson08::ServeOptions serve{.scheduler = {.max_tokens_per_pass = 64}};
  lesson08::ServingEngine before(model, {.num_blocks = 24}, serve);
  WindowsEngine engine(model, {.num_blocks = 24}, serve);
  const auto wanted = before.serve(requests, {}), found = engine.serve(requests, {});
  kvtest::check_equal(found.generated, wanted.generated);
  CHECK(engine.manager()->num_groups() == 1);
  CHECK(found.num_preemptions == wanted.num_preemptions);
  CHECK(found.generated.counters.passes == wanted.generated.counters.passes);
  CHECK(found.generated.counters.by_name == wanted.generated.counters.by_name);
  CHECK(found.generated.counters.kv_bytes_reserved == wanted.generated.counters.kv_bytes_reserved);
}

TEST_CASE("a long sequence holds its window in each group that forgets") {
  const kvtest::WindowedModel windowed(32);  // 6 layers: 2 without, 4 with a window
  kv::Model model = kv::Model::load(windowed.folder(), kv::Device::kCpu);
  const kv::Request request = kvtest::request_of(150, 60);
  WindowsEngine engine(model, {}, {.scheduler = {.max_tokens_per_pass = 32}});
  const auto found = engine.generate({&request, 1});
  kvtest::check_equal(found, lesson08_test::flat(model, {&request, 1}));
  REQUIRE(engine.manager()->num_groups() == 3);
  // 209 tokens: 14 blocks of group 0. A chunk of 32 after 31 that it sees: 5 blocks.
  CHECK(engine.manager()->max_blocks(209) == 14 + 2 * 5);
  CHECK(engine.manager()->pool().num_blocks() == 14 + 2 * 5);
  // In decodes a group holds the blocks that 32 tokens touch.
  CHECK(found.counters.named("blocks_in_use") == 14 + 2 * 3);
  // A block has 2 of 6 layers.
  const auto plain = lesson08::ServingEngine(model, {}).generate({&request, 1});
  CHECK(plain.counters.named("blocks_in_use") == 14);
  CHECK(found.counters.kv_bytes_reserved * 3 * 14 == plain.counters.kv_bytes_reserved * 20);
}

TEST_CASE("further samples find their prompt in every group") {
  const kvtest::WindowedModel windowed(20);
  kv::Model model = kv::Model::load(windowed.folder(), kv::Device::kCpu);
  kv::Request request = kvtest::request_of(65, 30);
  request.sampling.temperature = 1;
  const auto requests = kv::samples_of(request, 4);
  WindowsEngine engine(model, {});
  const auto found = engine.generate(requests);
  kvtest::check_equal(found, lesson08_test::flat(model, requests));
  CHECK(found.counters.named("cache_hit_tokens") == 3 * 64);
}

TEST_CASE("a second turn finds the first one's answer") {
  const kvtest::WindowedModel windowed(24);
  kv::Model model = kv::Model::load(windowed.folder(), kv::Device::kCpu);
  kv::Request request = kvtest::request_of(30, 50);
  WindowsEngine engine(model, {.num_blocks = 100});
  const auto first = engine.generate({&request, 1});
  const auto& answer = first.completions[0].tokens;
  request.prompt.insert(request.prompt.end(), answer.begin(), answer.end());
  const auto found = engine.serve({&request, 1}, {});
  CHECK(found.times[0].num_cached_tokens == 64);  // 79 tokens were computed: 4 blocks
  kvtest::check_equal(found.generated, lesson08_test::flat(model, {&request, 1}));
}

TEST_CASE("a pool of one group's blocks has the memory of the ladder's") {
  const kvtest::WindowedModel windowed(24);
  kv::Model model = kv::Model::load(windowed.folder(), kv::Device::kCpu);
  const kv::Request request = kvtest::request_of(40, 3);
  const auto engine = lesson10::make_engine(model, {.num_blocks = 12});
  engine->generate({&request, 1});
  const auto& manager = *static_cast<WindowsEngine&>(*engine).manager();
  CHECK(manager.pool().num_blocks() == 12 * 3);  // of 2 layers instead of 6
}

TEST_CASE("a request that never fits is refused, with what it holds at most") {
  const kvtest::WindowedModel windowed(16);
  kv::Model model = kv::Model::load(windowed.folder(), kv::Device::kCpu);
  const kv::Request request = kvtest::request_of(300, 21);  // 20 blocks, and 2 for each window
  const lesson08::ServeOptions chunks_of_one{.scheduler = {.max_tokens_per_pass = 1}};
  WindowsEngine enough(model, {.num_blocks = 24}, chunks_of_one);
  kvtest::check_equal(enough.generate({&request, 1}), lesson08_test::flat(model, {&request, 1}));
  WindowsEngine less(model, {.num_blocks = 23}, chunks_of_one);
  CHECK_THROWS_WITH_AS(less.generate({&request, 1}),
                       doctest::Contains("request 0 needs 24 blocks, the pool has 23"),
                       kv::UserError);
}

TEST_CASE("padded passes and tokens that the device chooses change nothing") {
  const kvtest::WindowedModel windowed(20);
  kv::Model model = kv::Model::load(windowed.folder(), kv::Device::kCpu);
  lesson08_test::check_padded<WindowsEngine>(model, 100);
}
