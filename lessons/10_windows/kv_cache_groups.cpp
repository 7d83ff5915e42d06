#include "kv_cache_groups.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace lesson10 {
namespace {

/// All layers of each window, those without one first.
std::vector<KvCacheGroup> kinds_of(const kv::ModelConfig& config) {
  std::vector<KvCacheGroup> kinds(1);
  for (int layer = 0; layer < config.num_layers; ++layer) {
    const int window = config.window_of(layer);
    auto kind = std::ranges::find(kinds, window, &KvCacheGroup::window);
    if (kind == kinds.end()) {
      kinds.push_back({.window = window, .layers = {}});
      kind = std::prev(kinds.end());
    }
    kind->layers.push_back(layer);
  }
  return kinds;
}

}  // namespace

std::vector<KvCacheGroup> make_groups(const kv::ModelConfig& config) {
  const std::vector<KvCacheGroup> kinds = kinds_of(config);
  if (kinds[0].layers.empty()) {  // every layer has a window
    std::vector<int> all(static_cast<size_t>(config.num_layers));
    std::iota(all.begin(), all.end(), 0);
    return {{.window = 0, .layers = std::move(all)}};
  }
  size_t fewest = kinds[0].layers.size(), most = fewest;
  for (const KvCacheGroup& kind : kinds) {
    fewest = std::min(fewest, kind.layers.size());
    most = std::max(most, kind.layers.size());
  }
  const size_t size = 4 * most < 5 * fewest ? most : fewest;
  std::vector<KvCacheGroup> groups;
  for (const KvCacheGroup& kind : kinds) {
    for (size_t first = 0; first < kind.layers.size(); first += size) {
      const auto end = std::min(first + size, kind.layers.size());
      groups.push_back({.window = kind.window,
                        .layers = {kind.layers.begin() + static_cast<std::ptrdiff_t>(first),
                                   kind.layers.begin() + static_cast<std::ptrdiff_t>(end)}});
    }
  }
  return groups;
}

int layers_per_group(std::span<const KvCacheGroup> groups) {
  size_t most = 0;
  for (const KvCacheGroup& group : groups) most = std::max(most, group.layers.size());
  return static_cast<int>(most);
}

std::vector<LayerPlace> places_of(std::span<const KvCacheGroup> groups) {
  std::vector<LayerPlace> places;
  for (size_t g = 0; g < groups.size(); ++g) {
    for (size_t i = 0; i < groups[g].layers.size(); ++i) {
      const auto layer = static_cast<size_t>(groups[g].layers[i]);
      if (places.size() <= layer) places.resize(layer + 1);
      places[layer] = {.group = static_cast<int>(g), .index = static_cast<int>(i)};
    }
  }
  return places;
}

PrefixId in_group(PrefixId prefix, int group) {
  constexpr PrefixId kMaxGroups = 1 << 16;  // an index would give out 2^47 numbers before two meet
  return -1 - (prefix * kMaxGroups + group);
}

BlockKey in_group(const BlockKey& key, PrefixId prefix, int group) {
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15;  // spreads the groups; equal hashes stay equal
  BlockKey in = key;
  in.hash = key.hash + kOdd * static_cast<uint64_t>(group);
  in.parent = in_group(prefix, group);
  return in;
}

}  // namespace lesson10
