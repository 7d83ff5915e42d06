// Tests of the groups of layers, and of the keys of a group's blocks.

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "kv_cache_groups.h"

namespace {

using lesson10::KvCacheGroup;
using lesson10::LayerPlace;
using lesson10::make_groups;

std::vector<KvCacheGroup> groups_of(const std::vector<int>& windows) {
  kv::ModelConfig config;
  config.num_layers = static_cast<int>(windows.size());
  config.windows = windows;
  return make_groups(config);
}

/// [full layers, then windowed ones]
std::vector<KvCacheGroup> groups_of(int full, int windowed, int window = 8) {
  std::vector<int> windows(full, 0);
  windows.insert(windows.end(), windowed, window);
  return groups_of(windows);
}

std::vector<size_t> sizes(const std::vector<KvCacheGroup>& groups) {
  std::vector<size_t> all;
  for (const auto& group : groups) all.push_back(group.layers.size());
  return all;
}

}  // namespace

TEST_CASE("a model without windows is one group") {
  kv::ModelConfig config;
  config.num_layers = 3;
  CHECK(make_groups(config) == std::vector<KvCacheGroup>{{.window = 0, .layers = {0, 1, 2}}});
  CHECK(groups_of({0, 0}) == std::vector<KvCacheGroup>{{.window = 0, .layers = {0, 1}}});
}

TEST_CASE("layers that forget are in groups of their own, and group 0 keeps all") {
  const auto groups = groups_of({4, 4, 0, 4, 4, 0});
  REQUIRE(groups == std::vector<KvCacheGroup>{{.window = 0, .layers = {2, 5}},
                                              {.window = 4, .layers = {0, 1}},
                                              {.window = 4, .layers = {3, 4}}});
  CHECK(lesson10::layers_per_group(groups) == 2);
  CHECK(lesson10::places_of(groups) ==
        std::vector<LayerPlace>{{1, 0}, {1, 1}, {0, 0}, {2, 0}, {2, 1}, {0, 1}});
}

TEST_CASE("every layer with a window: one group that keeps everything") {
  CHECK(groups_of({4, 4, 4}) == std::vector<KvCacheGroup>{{.window = 0, .layers = {0, 1, 2}}});
  CHECK(groups_of({4, 5}) == std::vector<KvCacheGroup>{{.window = 0, .layers = {0, 1}}});
  CHECK(groups_of({4}) == std::vector<KvCacheGroup>{{.window = 0, .layers = {0}}});
}

TEST_CASE("groups have as many layers as the smallest kind, or the largest if it is nearly equal") {
  CHECK(sizes(groups_of(1, 5)) == std::vector<size_t>{1, 1, 1, 1, 1, 1});
  CHECK(sizes(groups_of(4, 4)) == std::vector<size_t>{4, 4});
  CHECK(sizes(groups_of(4, 5)) == std::vector<size_t>{4, 4, 1});  // a quarter more is too much
  CHECK(sizes(groups_of(5, 6)) == std::vector<size_t>{5, 6});     // less than a quarter
  CHECK(lesson10::layers_per_group(groups_of(5, 6)) == 6);
  CHECK(sizes(groups_of(6, 5)) == std::vector<size_t>{6, 5});
  CHECK(sizes(groups_of(10, 52)) == std::vector<size_t>{10, 10, 10, 10, 10, 10, 2});  // Gemma 3
  CHECK(sizes(groups_of(7, 3)) == std::vector<size_t>{3, 3, 1, 3});
}

TEST_CASE("several groups without a window, where few layers forget") {
  const auto groups = groups_of({0, 0, 9, 0});
  CHECK(groups == std::vector<KvCacheGroup>{{.window = 0, .layers = {0}},
                                            {.window = 0, .layers = {1}},
                                            {.window = 0, .layers = {3}},
                                            {.window = 9, .layers = {2}}});
}

TEST_CASE("each window is a kind of its own") {
  const auto groups = groups_of({0, 8, 16, 0, 8, 16});
  CHECK(groups == std::vector<KvCacheGroup>{{.window = 0, .layers = {0, 3}},
                                            {.window = 8, .layers = {1, 4}},
                                            {.window = 16, .layers = {2, 5}}});
  CHECK(sizes(groups_of({0, 8, 16, 8, 8})) == std::vector<size_t>{1, 1, 1, 1, 1});
}

TEST_CASE("every layer has one place, whatever the windows") {
  for (int full = 0; full < 9; ++full) {
    for (int windowed = 0; windowed < 9; ++windowed) {
      if (full + windowed == 0) continue;
      CAPTURE(full);
      CAPTURE(windowed);
      const auto groups = groups_of(full, windowed);
      const auto places = lesson10::places_of(groups);
      REQUIRE(std::ssize(places) == full + windowed);
      std::set<std::pair<int, int>> seen;
      for (const LayerPlace& place : places) {
        CHECK(seen.emplace(place.group, place.index).second);
        CHECK(place.index < lesson10::layers_per_group(groups));
      }
      CHECK(groups[0].window == 0);
    }
  }
}

TEST_CASE("the number of a group's prefix is nobody else's") {
  std::set<lesson10::PrefixId> seen;
  for (const lesson10::PrefixId prefix : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{1} << 40}) {
    for (const int group : {1, 2, 3, 65'535}) {
      const auto in = lesson10::prefix_in_group(prefix, group);
      CHECK(in < 0);
      CHECK(seen.insert(in).second);
    }
  }
}

TEST_CASE("a group's key: the hash is another one, equal hashes stay equal, tokens are the same") {
  const std::vector<int32_t> a{1, 2}, b{3, 4};
  lesson10::PrefixIndex index(2, 2);
  index.insert(0, {.hash = 7, .parent = {}, .tokens = a, .extra_keys = {}});
  const auto prefix = index.insert(1, {.hash = 7, .parent = 0, .tokens = b, .extra_keys = {}});
  const auto in = lesson10::key_in_group(index, 1, 1);
  CHECK(in.hash != 7);
  CHECK(in.hash == lesson10::key_in_group(index, 0, 1).hash);
  CHECK(in.hash != lesson10::key_in_group(index, 1, 2).hash);
  CHECK(in.parent == lesson10::prefix_in_group(prefix, 1));
  CHECK(std::ranges::equal(in.tokens, b));
}
