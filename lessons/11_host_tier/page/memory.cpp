#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <stdexcept>

#include "live.h"

namespace lesson11 {

PageMemory::PageMemory(int device_blocks, int host_blocks)
    : device_(static_cast<size_t>(device_blocks) + 1, std::vector<int32_t>(kBlockSize)),
      host_(static_cast<size_t>(host_blocks) + 1, std::vector<int32_t>(kBlockSize)),
      copies_([this](Way way, const BlockMove& move) {
        std::vector<int32_t>& on_device = device_.at(static_cast<size_t>(move.device));
        std::vector<int32_t>& in_host = host_.at(static_cast<size_t>(move.host));
        way == Way::kOffload ? in_host = on_device : on_device = in_host;
      }) {}

void PageMemory::write(std::span<const int32_t> table, std::span<const int32_t> tokens, int begin,
                       int end) {
  for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
    device_.at(static_cast<size_t>(table[i / kBlockSize]))[i % kBlockSize] = tokens[i];
  }
}

/// A block of the host holds its tokens when the copies in flight are complete.
void PageMemory::check(const HostTierManager& manager) const {
  const auto check_pool = [](const BlockPool& pool, const Blocks& blocks, auto is_on_its_way) {
    for (int32_t id = 1; id <= pool.num_blocks(); ++id) {
      if (pool.index().block(id) == nullptr || is_on_its_way(id)) continue;
      if (std::ranges::equal(pool.index().tokens(id), blocks[static_cast<size_t>(id)])) continue;
      throw std::logic_error(fmt::format("block {} does not hold what it is found by", id));
    }
  };
  check_pool(manager.pool(), device_, [](int32_t) { return false; });
  check_pool(manager.host(), host_, [&](int32_t id) {
    return std::ranges::any_of(copies_.queue(), [&](const auto& queued) {
      return queued.way == Way::kOffload && queued.move.host == id;
    });
  });
}

}  // namespace lesson11
