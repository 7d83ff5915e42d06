#pragma once

// Lesson 11's transfers with checksums: each block is checked on the device after it has come back.

#include <algorithm>
#include <span>
#include <vector>

#include "checksum_blocks.h"
#include "lessons/07_lru_eviction/block_pool.h"
#include "lessons/11_host_tier/block_swapper.h"

namespace lesson12 {

using lesson07::BlockPool;
using lesson11::BlockSwapper;
using lesson11::Direction;
using lesson11::Job;

class CheckedSwapper final : public lesson11::Transfers {
 public:
  /// Borrows all four. `pool` is that of the host's blocks.
  CheckedSwapper(const BlockRegions& regions, const HostBlocks& host, BlockPool& pool,
                 const kv::Stream& passes)
      : regions_(regions),
        pool_(pool),
        passes_(passes),
        swapper_(regions, host, passes),
        computed_(passes.device(), host.num_ids() * sizeof(uint64_t)),
        loaded_(passes.device(), computed_.bytes()) {
    loads_.reserve(regions.num_blocks());
  }

  /// A block that is offloaded gets its checksum before it is copied. A block of the host that is
  /// loaded is not overwritten before verify() has looked at it.
  Job start(Direction direction, std::span<const BlockMove> moves) override {
    if (direction == Direction::kOffload) {
      checksum_blocks({.regions = &regions_, .blocks = moves, .checksums = checksums()}, passes_);
    }
    last_ = swapper_.start(direction, moves);
    if (direction == Direction::kOffload) return last_;
    for (const BlockMove& move : moves) {
      loads_.push_back({last_, move});  // has room: a block of the device is in one load at a time
      pool_.touch({&move.host, 1});
    }
    return last_;
  }
  Job completed() override { return done_ = swapper_.completed(); }
  void wait(Job job) override { swapper_.wait(job); }

  /// Checks the blocks of the loads that were complete when completed() was called last. Returns
  /// those that are not on the device as they were computed.
  std::vector<BlockMove> verify() {
    const auto end = std::ranges::upper_bound(loads_, done_, {}, &Load::job);
    std::vector<BlockMove> blocks;
    for (auto load = loads_.begin(); load != end; ++load) blocks.push_back(load->move);
    if (blocks.empty()) return blocks;
    auto* const loaded = loaded_.as<uint64_t>();
    checksum_blocks({.regions = &regions_, .blocks = blocks, .checksums = loaded}, passes_);
    passes_.synchronize();
    loads_.erase(loads_.begin(), end);
    // Tails first: a tail is overwritten before its head.
    for (size_t i = blocks.size(); i-- > 0;) pool_.free_blocks({&blocks[i].host, 1});
    std::erase_if(
        blocks, [&](const BlockMove& move) { return loaded[move.host] == checksums()[move.host]; });
    return blocks;
  }

  struct Load {
    Job job;
    BlockMove move;
  };
  std::span<const Load> loads() const { return loads_; }  // those that verify() has not looked at

  /// [host ids] of the blocks as they were computed; valid when the job of the offload is complete.
  uint64_t* checksums() const { return computed_.as<uint64_t>(); }
  Job last() const { return last_; }  // the last job that was started
  void let_passes_wait(Job job) { swapper_.let_passes_wait(job); }
  double seconds_per_block() const { return swapper_.seconds_per_block(); }

 private:
  const BlockRegions& regions_;
  BlockPool& pool_;
  const kv::Stream& passes_;
  BlockSwapper swapper_;
  kv::HostBuffer computed_, loaded_;  // uint64 [host ids]
  std::vector<Load> loads_;           // in the order of their jobs
  Job last_ = 0, done_ = 0;
};

}  // namespace lesson12
