#include "tiers.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace lesson11 {
namespace {

/// Blocks that hold nothing are overwritten first.
std::unique_ptr<BlockPool> make_pool(int num_blocks, int block_size) {
  return std::make_unique<BlockPool>(num_blocks, block_size, lesson07::FreeOrder::kUnhashedFirst);
}

/// The pool holds what the file holds, and what was written first will be overwritten first.
/// Returns the first number that no prefix has.
PrefixId adopt(const BlockFile& file, BlockPool& records) {
  const auto& found = file.found();
  const auto at = [&](int32_t id) -> const auto& { return found[static_cast<size_t>(id)]; };
  std::vector<int32_t> ids(static_cast<size_t>(records.num_blocks()));
  records.get_new_blocks(ids);
  PrefixId next = 0;
  for (const int32_t id : ids) {
    if (!at(id)) continue;
    records.cache_full_block(id, at(id)->key());
    next = std::max({next, at(id)->prefix + 1, at(id)->parent.value_or(-1) + 1});
  }
  const auto age = [&](int32_t id) { return at(id) ? at(id)->age : 0; };
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) { return age(a) > age(b); });
  // The last one is overwritten first.
  records.free_blocks(ids);
  return next;
}

}  // namespace

int default_tier_blocks(int blocks_above) {
  return static_cast<int>(std::min(int64_t{4} * blocks_above, int64_t{INT32_MAX - 1}));
}

HostTier make_host_tier(PagedKvCache& cache, const kv::Stream& passes, int num_blocks) {
  HostTier host;
  host.blocks = std::make_shared<const HostBlocks>(cache, passes.device(), num_blocks + 1);
  auto swapper = std::make_unique<BlockSwapper>(cache, *host.blocks, passes);
  host.swapper = swapper.get();
  host.tier = {.storage = host.blocks,
               .pool = make_pool(num_blocks, cache.block_size()),
               .transfers = std::move(swapper)};
  return host;
}

FileTier make_file_tier(const std::filesystem::path& path, const FileShape& shape, int num_blocks,
                        std::shared_ptr<const HostBlocks> host, FileTransfers::Run run) {
  struct Storage {
    std::shared_ptr<const HostBlocks> host;
    BlockFile file;
  };
  const std::shared_ptr<Storage> storage(
      new Storage{std::move(host), BlockFile(path, shape, num_blocks)});
  FileTier file;
  auto records = make_pool(num_blocks, shape.block_size);
  file.first_prefix = adopt(storage->file, *records);
  auto transfers = std::make_unique<FileTransfers>(storage->file, *storage->host, *records, run);
  file.tier = {.storage = storage, .pool = std::move(records), .transfers = std::move(transfers)};
  return file;
}

}  // namespace lesson11
