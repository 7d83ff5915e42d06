#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <stdexcept>

#include "lessons/11_host_tier/swap_blocks.h"
#include "live.h"

namespace lesson11 {
namespace {

/// K and V of a token are a number each.
kv::ModelConfig one_number() {
  kv::ModelConfig config;
  config.num_layers = config.num_heads = config.num_kv_heads = config.head_dim = 1;
  return config;
}

void check_block(const BlockPool& pool, int32_t id, const void* k, const char* where) {
  if (pool.index().block(id) == nullptr) return;
  const auto same = [](int32_t token, float number) { return static_cast<float>(token) == number; };
  const std::span held(static_cast<const float*>(k), kBlockSize);
  if (std::ranges::equal(pool.index().tokens(id), held, same)) return;
  throw std::logic_error(fmt::format("block {} {} does not hold what it is found by", id, where));
}

}  // namespace

PageMemory::PageMemory(int device_blocks, int host_blocks)
    : stream_(kv::Device::kCpu),
      cache_(one_number(), stream_, device_blocks + 1, kBlockSize),
      host_(cache_.bytes_per_block(), kv::Device::kCpu, host_blocks + 1),
      copies_([this](Way way, const BlockMove& move) {
        swap_blocks({.cache = &cache_, .host = &host_, .way = way, .moves = {&move, 1}}, stream_);
        ++(way == Way::kOffload ? traffic_.offloaded : traffic_.loaded);
      }) {}

void PageMemory::write(int32_t block, int offset, int32_t token, int position) {
  const lesson03::KvBlocks layer = cache_.layer(0);
  *lesson03::k_row<float>(layer, block, offset) = static_cast<float>(token);
  *lesson03::v_row<float>(layer, block, offset) = static_cast<float>(position);
}

/// A block of the host holds its tokens when the copies in flight are complete.
void PageMemory::check(const HostTierManager& manager) {
  for (int32_t id = 1; id <= manager.pool().num_blocks(); ++id) {
    check_block(manager.pool(), id, cache_.block(0, id).k, "on the device");
  }
  for (int32_t id = 1; id <= manager.host().num_blocks(); ++id) {
    const bool on_its_way = std::ranges::any_of(copies_.queue(), [&](const auto& queued) {
      return queued.way == Way::kOffload && queued.move.host == id;
    });
    if (!on_its_way) check_block(manager.host(), id, host_.block(id).data(), "of the host");
  }
}

}  // namespace lesson11
