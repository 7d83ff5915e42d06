#pragma once

// Layers that keep the same tokens of a sequence share a block table. Blocks of all groups have
// room for equally many layers, so they take the same memory and one pool serves them all. Source:
// vLLM's KVCacheGroupSpec (v0.22.1: vllm/v1/kv_cache_interface.py) and get_kv_cache_groups
// (vllm/v1/core/kv_cache_utils.py).

#include <cstdint>
#include <span>
#include <vector>

#include "lessons/07_lru_eviction/block_pool.h"
#include "qwen3/config.h"

namespace lesson10 {

using lesson06::BlockKey;
using lesson06::PrefixId;
using lesson06::PrefixIndex;

/// A block of this group holds K and V of block_size tokens in these layers.
struct KvCacheGroup {
  int window = 0;           // keys that a query sees, its own included; 0 means all
  std::vector<int> layers;  // ascending
  friend bool operator==(const KvCacheGroup&, const KvCacheGroup&) = default;
};

/// Group 0 keeps whole sequences. A *kind* is all layers of one window; the kind without one comes
/// first, then the others as they appear. A kind is cut into groups of equal size: the size of the
/// smallest kind, or of the largest if that has less than a quarter more layers. A little unused
/// memory in each block is better than a group for the rest. The last group of a kind may have
/// fewer layers.
///
/// A model without windows is one group: lesson 08's pool. A model in which every layer has a
/// window is one group, too, and keeps everything. Otherwise no group could prove the prefix of the
/// blocks that are left.
std::vector<KvCacheGroup> make_groups(const kv::ModelConfig& config);

/// The number of layers that a block has room for.
int layers_per_group(std::span<const KvCacheGroup> groups);

/// The most blocks of the group that a request of num_tokens tokens holds at any time, if no pass
/// computes more than max_new_tokens of them. 0 means no limit.
int64_t max_blocks(const KvCacheGroup& group, int block_size, int64_t num_tokens,
                   int max_new_tokens);

/// A layer's K and V: read layer `index` of the cache through the block table of group `group`.
struct LayerPlace {
  int group = 0, index = 0;
  friend bool operator==(const LayerPlace&, const LayerPlace&) = default;
};
std::vector<LayerPlace> places_of(std::span<const KvCacheGroup> groups);  // [num_layers]

/// A number that is different for any two prefixes or groups, and that no index gives out.
PrefixId prefix_in_group(PrefixId prefix, int group);
/// The key of the block in `group` with the same tokens as group 0's block, which is in the index.
/// Instead of a parent it has the number of that block's prefix. This prefix includes the block
/// itself: group 0 has proved all of it, so the group needs none of the blocks before.
BlockKey key_in_group(const PrefixIndex& index, int32_t full_block, int group);

}  // namespace lesson10
