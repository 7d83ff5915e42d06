// Slots of all groups that the device works out.

#include "slots.h"

using namespace lesson10_test;

TEST_CASE("slots in two groups of a prompt, of a decode, and of a chunk") {
  check_three_slots(kv::Device::kCpu);
}
TEST_CASE("a group's slot may be past 2 to the 31") {
  check_large_slots(kv::Device::kCpu);
  int64_t slots = 0;  // where group 0's begin
  const lesson10::GroupSlotMappingArgs args{.rows = {.num_rows = 1 << 30, .slot_mapping = &slots},
                                            .num_groups = 3};
  CHECK(lesson10::of_group(args, 2).slot_mapping - &slots == int64_t{2} << 30);
  lesson10::group_slot_mapping_cpu(
      args);  // no row; a product that does not fit is seen all the same
}
TEST_CASE("slots of each group are those of its tables alone") {
  check_slots(kv::Device::kCpu, {0, 1, 2, 7, 20, 64});
}
