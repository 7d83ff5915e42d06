#include "group_slot_mapping.h"

namespace lesson10 {

void group_slot_mapping_cpu(const GroupSlotMappingArgs& args) {
  for (int group = 0; group < args.num_groups; ++group) {
    lesson08::compute_slot_mapping_cpu(of_group(args, group));
  }
}

}  // namespace lesson10
