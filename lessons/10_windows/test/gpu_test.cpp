// Lesson 10 on a GPU: slots of all groups in one launch, the bits of lesson 02 in models with
// windows, and replayed decodes.

#include "slots.h"
#include "windowed.h"

using namespace lesson10_test;

TEST_CASE("slots in two groups of a prompt, of a decode, and of a chunk" *
          doctest::test_suite("kernel")) {
  check_three_slots(kv::Device::kCuda);
}

TEST_CASE("a group's slot may be past 2 to the 31" * doctest::test_suite("kernel")) {
  check_large_slots(kv::Device::kCuda);
}

TEST_CASE("slots of a few sequences, some with more rows than a CTA has threads" *
          doctest::test_suite("kernel")) {
  check_slots(kv::Device::kCuda, {2, 7});
}

TEST_CASE("slots of all groups on the GPU are those of each group's tables alone") {
  check_slots(kv::Device::kCuda, {0, 1, 2, 7, 20, 64, 300});
}

TEST_CASE("windows, blocks, chunks, preemption, hits, resets: the same bits on CUDA" *
          doctest::test_suite("sweep")) {
  for (const int window : {1, 17, 64, 1000}) {
    CAPTURE(window);
    const kvtest::WindowedModel windowed(window);
    kv::Model model = kv::Model::load(windowed.folder(), kv::Device::kCuda);
    for (const auto kernel : {kv::Kernel::kFast, kv::Kernel::kPlain}) {
      model.set_kernel(kernel);
      check_configurations(model, 16);
    }
  }
}

TEST_CASE("padded passes and tokens chosen on the GPU change nothing, layers forget or not" *
          doctest::test_suite("sweep")) {
  const kvtest::WindowedModel windowed(20);
  kv::Model model = kv::Model::load(windowed.folder(), kv::Device::kCuda);
  lesson08_test::check_padded<WindowsEngine>(model, 100);
}

TEST_CASE("an engine with groups that has served before replays every pass of decodes" *
          doctest::test_suite("sweep")) {
  const kvtest::WindowedModel windowed(20);
  kv::Model model = kv::Model::load(windowed.folder(), kv::Device::kCuda);
  WindowsEngine engine(model, {.num_blocks = 600}, {.choose_on_device = true, .pad_decodes_to = 8});
  lesson08_test::check_replays(engine, model);
}
