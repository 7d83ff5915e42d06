#include "instruments/route/lru_blocks.h"

#include <algorithm>

namespace route {

void LruBlocks::use(std::span<const uint64_t> prompt) {
  prompt = prompt.first(std::min(prompt.size(), static_cast<size_t>(capacity_)));
  for (auto block = prompt.rbegin(); block != prompt.rend(); ++block) {
    const auto [found, is_new] = places_.try_emplace(*block);
    if (is_new) {
      found->second = order_.insert(order_.end(), *block);
    } else {
      order_.splice(order_.end(), order_, found->second);
    }
  }
  while (num_blocks() > capacity_) {
    places_.erase(order_.front());
    order_.pop_front();
  }
}

}  // namespace route
