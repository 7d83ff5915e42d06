// Lesson 03's kernels keep to their blocks: debug pools have rows of NaN between them.

#include "guards.h"

#include "lessons/03_paged_blocks/gathered_attention.h"
#include "tests/support/shipped_model.h"

TEST_CASE("in a debug pool the guards tell a kernel that is off by one row") {
  lesson03_test::check_write_and_gather_in_debug_pool(kv::Stream(kv::Device::kCpu));
}

TEST_CASE("a model in a debug pool: the same logits, and no guard is touched") {
  lesson03_test::check_model_in_debug_pool<lesson03::GatheredAttention>(kvtest::shipped_model());
}
