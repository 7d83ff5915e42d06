#pragma once

// The two tiers of a server, made ready: pools, memory, a file, and what copies between them.

#include <filesystem>
#include <memory>

#include "block_file.h"
#include "block_swapper.h"
#include "file_transfers.h"
#include "host_blocks.h"
#include "tiered_manager.h"

namespace lesson11 {

/// Blocks of a tier that nobody has given a number: four times those above.
int default_tier_blocks(int blocks_above);

struct HostTier {
  Tier tier;
  BlockSwapper* swapper = nullptr;           // the tier's
  std::shared_ptr<const HostBlocks> blocks;  // the tier's, too
};
/// Borrows the cache and the stream on which the model runs.
HostTier make_host_tier(PagedKvCache& cache, const kv::Stream& passes, int num_blocks);

struct FileTier {
  Tier tier;
  PrefixId first_prefix = 0;  // beyond all numbers in the file
};
/// What the file holds can be found at once. Throws as BlockFile does.
FileTier make_file_tier(const std::filesystem::path& path, const FileShape& shape, int num_blocks,
                        std::shared_ptr<const HostBlocks> host,
                        FileTransfers::Run run = FileTransfers::Run::kThread);

}  // namespace lesson11
