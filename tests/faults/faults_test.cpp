// Every allocation of the last lesson's engine fails, each in its turn.

#include "tests/faults/faults.h"

TEST_CASE("each allocation fails once: no block is lost, and the next answer is right") {
  for (const bool warm : {false, true}) {
    const int64_t calls = kvtest::fail_each(kvtest::shipped_model(), false, warm);
    MESSAGE(calls << " allocations");
    CHECK(calls > 50);
  }
}

TEST_CASE("each allocation fails, and all behind it: what cleans up needs none") {
  for (const bool warm : {false, true}) {
    CHECK(kvtest::fail_each(kvtest::shipped_model(), true, warm) > 50);
  }
}

TEST_CASE("a model that has not run yet fails in its first pass") {
  const auto requests = kvtest::few_requests();
  const uint64_t wanted = kv::combined_digest(
      lesson02::make_engine(kvtest::shipped_model(), {})->generate(requests).completions);
  for (int64_t n = 1;; n += 17) {
    CAPTURE(n);
    kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCpu);
    const auto engine = kvtest::small_engine(model);
    kvtest::fail_allocation(n);
    try {
      engine->generate(requests);
    } catch (const std::exception&) {  // it may also find another way, as a stable sort does
    }
    const bool failed = kvtest::allocation_failed();
    kvtest::fail_allocation(0);
    if (!failed) {
      CHECK(n > 50);
      break;
    }
    REQUIRE(kv::combined_digest(engine->generate(requests).completions) == wanted);
  }
}
