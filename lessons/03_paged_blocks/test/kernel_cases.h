// Tests of lesson 03's kernels on the device kDevice, which the including file names: the CPU in
// engine_test.cpp, CUDA in gpu_test.cpp.

#include "numbered_rows.h"

/// Cases of tenths of a second on the simulated GPU.
static const doctest::test_suite kSmall("kernel");

TEST_CASE("four rows go to their slots, and slot -1 is nowhere" * kSmall) {
  lesson03_test::check_rows_in_slots(kv::Stream(kDevice));
}

TEST_CASE("a row of a slot that the cache does not have goes nowhere" * kSmall) {
  lesson03_test::check_slots_outside(kv::Stream(kDevice));
}

TEST_CASE("two sequences come out of their blocks in order" * kSmall) {
  lesson03_test::check_rows_in_order(kv::Stream(kDevice));
}

TEST_CASE("rows go to their slots and come back, and those of slot -1 go nowhere" * kSmall) {
  lesson03_test::check_write_and_gather(kv::Stream(kDevice));
}

TEST_CASE("slots of more than 31 bits are written" * kSmall) {
  lesson03_test::check_written_past_2_to_31(kv::Stream(kDevice));
}

TEST_CASE("slots and table entries of more than 31 bits are gathered" * kSmall) {
  lesson03_test::check_gathered_past_2_to_31(kv::Stream(kDevice));
}

TEST_CASE("in a debug pool the guards tell a kernel that is off by one row" * kSmall) {
  lesson03_test::check_write_and_gather_in_debug_pool(kv::Stream(kDevice));
}
