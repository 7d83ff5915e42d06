// A part of a large cache: what has just come is in it, and something of the newest and the longest
// prefixes.

#include "instruments/watch/page/excerpt.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

namespace {

using namespace watch;

void store(EventMirror& mirror, uint64_t first, uint64_t count,
           std::optional<uint64_t> parent = {}) {
  BlockStored event{.block_size = 4};
  for (uint64_t i = 0; i < count; ++i) event.block_hashes.push_back(hash_of(first + i));
  if (parent) event.parent_block_hash = hash_of(*parent);
  mirror.apply({.ts = 1, .events = {event}});
}

/// The blocks of each row.
using Rows = std::vector<std::vector<BlockName>>;
Rows shown(const Excerpt& part) {
  Rows rows;
  for (const Excerpt::Row& row : part.rows) {
    rows.emplace_back();
    for (const size_t i : row.shown) rows.back().push_back(row.blocks.at(i));
  }
  return rows;
}
std::vector<BlockName> names(std::initializer_list<uint64_t> numbers) {
  std::vector<BlockName> all;
  for (const uint64_t number : numbers) all.push_back(hash_of(number));
  return all;
}

}  // namespace

TEST_CASE("excerpt: where there is room for all, all is there") {
  EventMirror mirror;
  CHECK(excerpt(mirror, 0, 8).rows.empty());
  store(mirror, 1, 2);
  store(mirror, 10, 2, 2);
  store(mirror, 20, 1, 2);
  const Excerpt part = excerpt(mirror, 5, 7);  // a block of two prefixes is there twice
  CHECK(shown(part) == Rows{names({1, 2, 10, 11}), names({1, 2, 20})});
  CHECK(part.num_prefixes == 2);
  CHECK(part.num_more == 0);
  CHECK(part.num_cut == 0);
}

TEST_CASE("excerpt: what has just come is there before all else, the newest first") {
  EventMirror mirror;
  store(mirror, 100, 50);
  store(mirror, 200, 9);
  const int64_t since = mirror.num_stored();
  store(mirror, 1, 2);
  store(mirror, 150, 3, 149);
  CHECK(shown(excerpt(mirror, since, 5)) == Rows{names({1, 2}), names({150, 151, 152})});
  CHECK(shown(excerpt(mirror, since, 4)) == Rows{names({2}), names({150, 151, 152})});
  const Excerpt part = excerpt(mirror, since, 2);
  CHECK(shown(part) == Rows{names({151, 152})});
  CHECK(part.num_more == 62);
  CHECK(part.num_cut == 3);
}

TEST_CASE("excerpt: then the newest and the longest in turn, a few blocks of each") {
  EventMirror mirror;
  store(mirror, 100, 50);  // the longest
  for (uint64_t i = 2; i < 9; ++i) store(mirror, 100 * i, 7);
  const auto rows = shown(excerpt(mirror, mirror.num_stored(), 12));
  CHECK(rows == Rows{names({100, 145, 146, 147, 148, 149}), names({800, 802, 803, 804, 805, 806})});
  const auto more = shown(excerpt(mirror, mirror.num_stored(), 60));
  CHECK(more.size() == 8);
  for (const auto& row : more) CHECK(row.size() >= 6);
}

TEST_CASE("excerpt: of any cache it is as large as the room, and counts what it leaves out") {
  std::mt19937 rng(3);
  for (int trial = 0; trial < 200; ++trial) {
    CAPTURE(trial);
    EventMirror mirror;
    const uint64_t count = 1 + rng() % 60;
    for (uint64_t i = 1; i <= count; ++i) {
      store(mirror, i, 1,
            i > 1 && rng() % 4 > 0 ? std::optional<uint64_t>(1 + rng() % (i - 1)) : std::nullopt);
    }
    const auto since = static_cast<int64_t>(rng() % (count + 1));
    const size_t room = rng() % 80;
    const Excerpt part = excerpt(mirror, since, room);
    std::set<BlockName> there;
    size_t places = 0, all_places = 0;
    for (const auto& row : shown(part)) {
      places += row.size();
      there.insert(row.begin(), row.end());
    }
    for (const Chain& chain : mirror.chains()) all_places += chain.num_blocks;
    CHECK(places == std::min(room, all_places));
    CHECK(part.num_more == static_cast<int64_t>(count - there.size()));
    size_t missing = 0;  // of those that have just come
    for (uint64_t i = 1; i <= count; ++i) {
      missing += mirror.find(hash_of(i))->stored_at >= since && !there.contains(hash_of(i));
    }
    const size_t fresh = count - std::min<size_t>(count, static_cast<size_t>(since));
    CHECK(missing == fresh - std::min(fresh, room));
  }
}
