#include <algorithm>
#include <span>

#include "live.h"
#include "viz/known_texts.h"

namespace lesson11 {

PageMemory::PageMemory(int device_blocks, int host_blocks)
    : copies([this](Direction direction, const BlockMove& move) {
        std::vector<int32_t>& on_device = device_.at(move.device);
        std::vector<int32_t>& in_host = host_.at(move.host);
        direction == Direction::kOffload ? in_host = on_device : on_device = in_host;
      }),
      device_(static_cast<size_t>(device_blocks) + 1, std::vector<int32_t>(kBlockSize)),
      host_(static_cast<size_t>(host_blocks) + 1, std::vector<int32_t>(kBlockSize)) {}

void PageMemory::write(std::span<const int32_t> table, std::span<const int32_t> tokens, int begin,
                       int end) {
  for (size_t i = begin; i < static_cast<size_t>(end); ++i) {
    device_.at(table[i / kBlockSize])[i % kBlockSize] = tokens[i];
  }
}

/// A block of the host holds its tokens when the copies in flight are complete.
void PageMemory::check(const HostTierManager& manager) const {
  viz::check_found(manager.pool().index(), [&](int32_t id, auto tokens) {
    return std::ranges::equal(tokens, device_[id]);
  });
  viz::check_found(manager.host().index(), [&](int32_t id, auto tokens) {
    return std::ranges::equal(tokens, host_[id]) ||
           std::ranges::any_of(copies.queue(), [&](const auto& queued) {
             return queued.direction == Direction::kOffload && queued.move.host == id;
           });
  });
}

}  // namespace lesson11
