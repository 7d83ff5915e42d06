// Every CUDA call of lesson 08's engine fails, each in its turn (see wrapped_cuda.cu).

#include "tests/faults/faults.h"

TEST_CASE("each allocation and each CUDA call fails, once and from then on") {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCuda);
  for (const bool warm : {false, true}) {
    for (const bool later : {false, true}) {
      const int64_t calls = kvtest::fail_each(model, later, warm);
      MESSAGE(calls << " allocations and CUDA calls");
      CHECK(calls > 100);
    }
  }
}

TEST_CASE("a model that has not run yet fails in its first passes: no graph is left half-made") {
  kvtest::fail_in_first_passes(kv::Device::kCuda, 5);
}
