// Lesson 08 on a GPU: slots from tables, mixed passes, preemption and resumption give the bits of
// lesson 02, and passes of decodes are replayed.

#include "served.h"
#include "slots.h"

namespace {

kv::Model& model_on_gpu() {
  static kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCuda);
  return model;
}

}  // namespace

TEST_CASE("the slots of a prompt, of a decode, and of a chunk" * doctest::test_suite("kernel")) {
  check_three_slots(kv::Device::kCuda);
}

TEST_CASE("a slot may be past 2 to the 31" * doctest::test_suite("kernel")) {
  check_large_slots(kv::Device::kCuda);
}

TEST_CASE("slots of a few sequences, some with more rows than a CTA has threads" *
          doctest::test_suite("kernel")) {
  check_slots(kv::Device::kCuda, {2, 7});
}

TEST_CASE("slots from tables on the GPU are those of the tables on the host") {
  check_slots(kv::Device::kCuda, {0, 1, 2, 3, 7, 20, 64, 300});
}

TEST_CASE("pools, blocks, chunks, preemption, caching, resets: the same bits on CUDA" *
          doctest::test_suite("sweep")) {
  lesson08_test::check_configurations(model_on_gpu(), 24);
}

TEST_CASE("padded passes and tokens chosen on the GPU change nothing") {
  lesson08_test::check_padded(model_on_gpu());
}

TEST_CASE("an engine that has served before replays every pass of decodes as a graph") {
  kv::Model& model = model_on_gpu();
  lesson08::ServingEngine engine(model, {.num_blocks = 200},
                                 {.choose_on_device = true, .pad_decodes_to = 8});
  lesson08_test::check_replays(engine, model);
}
