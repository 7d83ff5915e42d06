#pragma once

// The places of a block, for tests of the file tier: the device, the host and the file.

#include <filesystem>
#include <optional>
#include <vector>

#include "checked_swapper.h"
#include "file_tier.h"
#include "lessons/05_refcount_cow/test/block_memory.h"

namespace lesson12_test {

using lesson11::BlockMove;
using lesson12::BlockFile;
using lesson12::BlockPool;
using lesson12::CheckedSwapper;
using lesson12::Direction;
using lesson12::FileMetrics;
using lesson12::FileTier;
using lesson12::HostBlocks;
using lesson12::Job;
using Moves = std::vector<BlockMove>;

constexpr int kBlockSize = 2, kBlocks = 6;

/// A device, a host and a file, with blocks of two layers. The
/// device's blocks hold random bytes.
struct Places {
  explicit Places(const std::filesystem::path& path, kv::RunJobs run = kv::RunJobs::kAtOnce,
                  kv::KvFormat format = kv::KvFormat::kActivations)
      : stream(kv::Device::kCpu),
        device(2, kBlocks + 1,
               format == kv::KvFormat::kFp8
                   ? lesson05_test::with_scales(1, 8, kBlockSize)
                   : lesson05_test::k_and_v(1, 8, kBlockSize, kv::Device::kCpu),
               stream, kBlockSize),
        memory(device.regions.bytes_per_block(), kv::Device::kCpu, kBlocks + 1),
        file(path, {.fingerprint = 12,
                    .block_size = kBlockSize,
                    .bytes_per_block = device.regions.bytes_per_block(),
                    .format = static_cast<int64_t>(format)}),
        pool(kBlocks, kBlockSize, lesson07::FreeOrder::kUnhashedFirst),
        swapper(device.regions, memory, pool, stream),
        tier(file, memory, pool, swapper.checksums(), metrics, run) {
    lesson05_test::fill_randomly(device.regions, stream);
  }

  /// Block `id` of the device is offloaded: `num` stands for its prefix and its tokens. Returns the
  /// block of the host.
  int32_t offload(int32_t id, int num, const lesson06::ExtraKeys& extra_keys = {}) {
    const int32_t host = pool.queue().first(1)[0]->id;
    const Job job = swapper.start(Direction::kOffload, Moves{{id, host}});
    std::vector<int32_t> ids(1);
    pool.get_new_blocks(ids);
    const std::vector<int32_t> tokens(kBlockSize, num);
    pool.cache_full_block(host, {.hash = static_cast<uint64_t>(num),
                                 .parent = std::nullopt,
                                 .tokens = tokens,
                                 .extra_keys = extra_keys,
                                 .prefix = num});
    pool.free_blocks(ids);
    tier.save(job);
    return host;
  }
  void complete() {
    swapper.wait(swapper.last());
    tier.complete(swapper.completed());
    tier.finish();
  }
  /// Loads a block of the host, as lesson 11's manager does.
  Moves load(int32_t host, int32_t id) {
    swapper.wait(swapper.start(Direction::kLoad, Moves{{id, host}}));
    swapper.completed();
    return swapper.verify();
  }
  bool can_be_found(int num) const {
    const std::vector<int32_t> tokens(kBlockSize, num);
    return pool.index().find({.hash = static_cast<uint64_t>(num),
                              .parent = std::nullopt,
                              .tokens = tokens,
                              .extra_keys = {}}) != nullptr;
  }

  kv::Stream stream;
  lesson05_test::BlockMemory device;
  HostBlocks memory;
  BlockFile file;
  BlockPool pool;
  CheckedSwapper swapper;
  FileMetrics metrics;
  FileTier tier;
};

}  // namespace lesson12_test
