// The mirror: what is there after a server's events.

#include "instruments/watch/event_mirror.h"

#include <doctest/doctest.h>

#include <chrono>
#include <numeric>

namespace {

using namespace watch;

EventBatch batch_of(Event event) { return {.ts = 1, .events = {std::move(event)}}; }

BlockStored stored(const std::vector<uint64_t>& hashes, std::optional<uint64_t> parent = {}) {
  BlockStored event{.block_size = 4};
  for (const uint64_t hash : hashes) event.block_hashes.push_back(hash_of(hash));
  if (parent) event.parent_block_hash = hash_of(*parent);
  return event;
}

BlockRemoved removed(uint64_t hash) { return {.block_hashes = {hash_of(hash)}}; }

}  // namespace

TEST_CASE("mirror: stored, evicted, and here again") {
  EventMirror mirror;
  CHECK(mirror.apply(batch_of(stored({1, 2}))).stored == 2);
  CHECK(mirror.apply(batch_of(removed(2))).removed == 1);
  CHECK(mirror.find(hash_of(2)) == nullptr);
  CHECK(mirror.evicted().back() == hash_of(2));
  const Changes changes = mirror.apply(batch_of(stored({2, 3}, 1)));
  CHECK(changes.stored == 2);
  CHECK(changes.again == 1);
  CHECK(mirror.find(hash_of(2))->was_evicted);
  CHECK_FALSE(mirror.find(hash_of(3))->was_evicted);
  CHECK(mirror.find(hash_of(3))->parent == hash_of(2));
  CHECK(mirror.evicted().empty());
  CHECK(mirror.apply(batch_of(removed(9))).not_there == 1);
  CHECK(mirror.apply(batch_of(AllBlocksCleared{})).cleared == 1);
  CHECK(mirror.num_blocks() == 0);
  CHECK(mirror.apply(batch_of(stored({1}))).again == 0);  // it was cleared, not evicted
}

TEST_CASE(
    "mirror: of two equal blocks one stays when one goes, and a place is a place of its own") {
  EventMirror mirror;
  mirror.apply(batch_of(stored({1})));
  mirror.apply(batch_of(stored({1})));
  BlockStored sunk = stored({1});
  sunk.place.medium = "CPU";
  mirror.apply(batch_of(sunk));
  CHECK(mirror.num_blocks() == 3);
  CHECK(mirror.blocks().size() == 2);
  mirror.apply(batch_of(removed(1)));
  CHECK(mirror.find(hash_of(1))->num_copies == 1);
  mirror.apply(batch_of(removed(1)));
  CHECK(mirror.find(hash_of(1)) == nullptr);
  CHECK(mirror.find(name_of(hash_of(1), sunk.place)) != nullptr);
}

TEST_CASE("mirror: chains, what is theirs alone, and chains that have lost their head") {
  EventMirror mirror;
  mirror.apply(batch_of(stored({1, 2, 3})));
  mirror.apply(batch_of(stored({4, 5, 6}, 2)));
  mirror.apply(batch_of(stored({7})));
  const auto chains = mirror.chains();
  REQUIRE(chains.size() == 3);
  CHECK(mirror.blocks_of(chains[0]) ==
        std::vector<BlockName>{hash_of(1), hash_of(2), hash_of(4), hash_of(5), hash_of(6)});
  CHECK(chains[0].num_tokens == 20);
  CHECK(chains[0].num_own == 3);
  CHECK(chains[1].num_own == 1);
  CHECK(chains[2].num_own == 1);
  mirror.apply(batch_of(removed(1)));
  CHECK(mirror.chains()[0].headless);
  CHECK(mirror.chains()[0].num_blocks == 4);
  mirror.apply(batch_of(stored({8, 9}, 9)));  // its own ancestor: no server should say so
  CHECK(mirror.chains().size() == 3);
}

TEST_CASE("mirror: a prefix that many chains share is walked once") {
  EventMirror mirror;
  constexpr uint64_t kCount = 8000;
  std::vector<uint64_t> prefix(kCount);
  std::iota(prefix.begin(), prefix.end(), uint64_t{1});
  mirror.apply(batch_of(stored(prefix)));
  for (uint64_t i = 1; i <= kCount; ++i) mirror.apply(batch_of(stored({kCount + i}, kCount)));
  const auto begin = std::chrono::steady_clock::now();
  const auto chains = mirror.chains();
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(2));  // not kCount^2 steps
  REQUIRE(chains.size() == kCount);
  for (const Chain& chain : chains) {
    CHECK(chain.num_blocks == kCount + 1);
    CHECK(chain.num_own == 1);
  }
  CHECK(chains[1].newest == static_cast<int64_t>(kCount) + 1);
  CHECK(mirror.blocks_of(chains[1]).at(kCount - 1) == hash_of(kCount));
}

TEST_CASE("mirror: the number of evicted blocks that are remembered is limited") {
  EventMirror mirror(2);
  mirror.apply(batch_of(stored({1, 2, 3})));
  for (const uint64_t hash : {3u, 2u, 1u}) mirror.apply(batch_of(removed(hash)));
  CHECK(mirror.evicted().size() == 2);
  CHECK(mirror.apply(batch_of(stored({1, 2, 3}))).again == 2);
}
