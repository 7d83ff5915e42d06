#include "kv_cache_groups.h"

#include <algorithm>

namespace lesson10 {
namespace {

/// The layers of each kind, the kind without a window first. If every layer has a window, all
/// layers count as layers without one.
std::vector<KvCacheGroup> kinds_of(const kv::ModelConfig& config) {
  bool some_keep_all = false;
  for (int layer = 0; layer < config.num_layers; ++layer) {
    some_keep_all = some_keep_all || config.window_of(layer) == 0;
  }
  std::vector<KvCacheGroup> kinds(1);
  for (int layer = 0; layer < config.num_layers; ++layer) {
    const int window = some_keep_all ? config.window_of(layer) : 0;
    auto kind = std::ranges::find(kinds, window, &KvCacheGroup::window);
    if (kind == kinds.end()) kind = kinds.insert(kind, {.window = window, .layers = {}});
    kind->layers.push_back(layer);
  }
  return kinds;
}

}  // namespace

std::vector<KvCacheGroup> make_groups(const kv::ModelConfig& config) {
  const std::vector<KvCacheGroup> kinds = kinds_of(config);
  size_t fewest = kinds[0].layers.size(), most = fewest;
  for (const KvCacheGroup& kind : kinds) {
    fewest = std::min(fewest, kind.layers.size());
    most = std::max(most, kind.layers.size());
  }
  const size_t size = 4 * most < 5 * fewest ? most : fewest;
  std::vector<KvCacheGroup> groups;
  for (const KvCacheGroup& kind : kinds) {
    for (size_t i = 0; i < kind.layers.size(); ++i) {
      if (i % size == 0) groups.push_back({.window = kind.window, .layers = {}});
      groups.back().layers.push_back(kind.layers[i]);
    }
  }
  return groups;
}

int layers_per_group(std::span<const KvCacheGroup> groups) {
  size_t most = 0;
  for (const KvCacheGroup& group : groups) most = std::max(most, group.layers.size());
  return static_cast<int>(most);
}

int64_t max_blocks(const KvCacheGroup& group, int block_size, int64_t num_tokens,
                   int max_new_tokens) {
  const int64_t size = block_size, all = (num_tokens + size - 1) / size;
  if (group.window == 0 || max_new_tokens == 0) return all;
  // The keys that the first new token sees and the new tokens, wherever they begin in a block.
  const int64_t at_once = int64_t{group.window} - 1 + max_new_tokens;
  return std::min(all, (at_once + size - 2) / size + 1);
}

std::vector<LayerPlace> places_of(std::span<const KvCacheGroup> groups) {
  std::vector<LayerPlace> places;
  for (size_t g = 0; g < groups.size(); ++g) {
    for (size_t i = 0; i < groups[g].layers.size(); ++i) {
      const size_t layer = groups[g].layers[i];
      if (places.size() <= layer) places.resize(layer + 1);
      places[layer] = {.group = static_cast<int>(g), .index = static_cast<int>(i)};
    }
  }
  return places;
}

PrefixId prefix_in_group(PrefixId prefix, int group) {
  constexpr PrefixId kMaxGroups = 1 << 16;  // an index would give out 2^47 numbers before two meet
  return -1 - (prefix * kMaxGroups + group);
}

BlockKey key_in_group(const PrefixIndex& index, int32_t full_block, int group) {
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15;  // spreads the groups; equal hashes stay equal
  const lesson06::CachedBlock& full = *index.block(full_block);
  return {.hash = full.hash + kOdd * static_cast<uint64_t>(group),
          .parent = prefix_in_group(full.prefix, group),
          .tokens = index.tokens(full_block),
          .extra_keys = full.extra_keys};
}

}  // namespace lesson10
