// What must hold at every moment, spelled out: for tests, and for the page, which checks it after
// each command.

#include <fmt/format.h>

#include <map>
#include <stdexcept>

#include "lessons/11_host_tier/tiered_manager.h"

namespace lesson11 {

void TieredManager::check_tiers() const {
  check();
  for (int tier = 0; tier < num_tiers(); ++tier) {
    tier_pool(tier).check();
    std::map<int32_t, int> copies;  // that name a block of the tier
    for (const Move& move : moves(tier)) {
      for (const BlockMove& block : move.blocks) ++copies[block.lower];
    }
    if (tier + 1 < num_tiers()) {  // and what rises into it
      for (const Move& move : moves(tier + 1)) {
        if (move.way == Way::kDown) continue;
        for (const BlockMove& block : move.blocks) ++copies[block.upper];
      }
    }
    for (int32_t id = 1; id <= tier_pool(tier).num_blocks(); ++id) {
      if (tier_pool(tier).ref_cnt(id) == copies[id]) continue;
      throw std::logic_error(
          fmt::format("block {} of tier {} has ref count {}, but {} copies name it", id, tier,
                      tier_pool(tier).ref_cnt(id), copies[id]));
    }
  }
}

}  // namespace lesson11
