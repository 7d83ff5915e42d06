// Every allocation of the last lesson's engine fails, each in its turn.

#include "tests/faults/faults.h"

TEST_CASE("each allocation fails once: no block is lost, and the next answer is right") {
  for (const bool warm : {false, true}) {
    const int64_t calls = kvtest::fail_each(kvtest::shipped_model(), false, warm);
    MESSAGE(calls << " allocations");
    CHECK(calls > 50);
  }
}

TEST_CASE("each allocation fails and so do all after it: cleaning up needs none") {
  for (const bool warm : {false, true}) {
    CHECK(kvtest::fail_each(kvtest::shipped_model(), true, warm) > 50);
  }
}

TEST_CASE("a model that has not run yet fails in its first pass") {
  kvtest::fail_in_first_passes(kv::Device::kCpu, 17);
}
