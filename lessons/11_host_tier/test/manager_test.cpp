// Where blocks are, which of them move, and what is found: without a byte of K and V.

#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "lessons/06_prefix_hashing/program/hashers.h"
#include "symbolic_tiers.h"

namespace lesson11 {

TEST_CASE("what is evicted from the device is found in the host's pool, and loaded") {
  Tiers t({.device = 4, .host = 8});
  t.run(1, t.prompt(0, 16));  // 4 blocks of 4 tokens
  t.sink_all();
  t.run(2, t.prompt(1, 16));  // evicts them
  const FoundBlocks found = t.look_up(t.prompt(0, 20));
  CHECK(sizes(found) == Sizes{0, 4});
  CHECK(found.computed.num_queried == 20);
  const auto ticket = t.manager().load(3, found);
  REQUIRE(ticket);
  CHECK_FALSE(t.manager().loaded(*ticket));
  CHECK(num_on_their_way(t.look_up(t.prompt(0, 20))) == 4);
  t.manager().check_tiers();
  t.copies(0).wait(*ticket);
  t.manager().finish_moves();
  CHECK(t.manager().loaded(*ticket));
  CHECK(num_on_their_way(t.look_up(t.prompt(0, 20))) == 0);
  t.cache(3, t.prompt(0, 16));
  CHECK(t.contents(3) == t.kv_of(t.prompt(0, 16)));
  CHECK(sizes(t.look_up(t.prompt(0, 20))) == Sizes{16, 0});
  CHECK(t.manager().tier_metrics(0).num_sunk == 4);
  CHECK(t.manager().tier_metrics(0).num_risen == 4);
  t.manager().check_tiers();
}

TEST_CASE("full blocks are found below the device, but never the last token") {
  Tiers t({.device = 4, .host = 8});
  t.run(1, t.prompt(0, 16));
  t.sink_all();
  t.run(2, t.prompt(1, 16));
  for (const int n : {1, 3, 4, 5, 7, 8, 9, 12, 13, 16, 17, 19}) {
    CHECK(sizes(t.look_up(t.prompt(0, n))) == Sizes{0, (n - 1) / 4});
  }
  CHECK(sizes(t.look_up({})) == Sizes{0, 0});
  BlockHashes hashes;
  CHECK(sizes(t.manager().look_up(t.prompt(0, 16), hashes, true)) == Sizes{0, 0});  // no reading
}

TEST_CASE("a prefix goes on from pool to pool") {
  Tiers t({.device = 3, .host = 1, .file = 2});
  t.run(1, t.prompt(0, 12));  // its third block will be taken first
  t.sink_all();               // and so sinks first, to the host
  t.sink_all();               // and to the file
  t.run(2, t.prompt(1, 4));
  t.sink_all();  // now the second one, over the third
  t.run(3, t.prompt(2, 4));
  const FoundBlocks found = t.look_up(t.prompt(0, 16));
  CHECK(found.computed.num_tokens == 4);
  CHECK(tiers_of(found) == std::vector{0, 1});
  CHECK(sizes(t.look_up(t.prompt(0, 8))) == Sizes{4, 0});
  CHECK(t.manager().fetch(found) == 0);  // the only block of the host is one of those found
  CHECK_THROWS_WITH_AS(t.manager().load(4, found), doctest::Contains("all of tier 0"),
                       std::invalid_argument);
  CHECK_THROWS_AS(t.manager().load(4, t.look_up(t.prompt(3, 8))), std::invalid_argument);
  CHECK_FALSE(t.manager().holds(4));
  t.load(4, t.prompt(0, 12));
  CHECK(t.contents(4) == t.kv_of(t.prompt(0, 8)));
}

TEST_CASE("blocks are found on their way down and up, and rise from the file by the host") {
  Tiers t({.device = 2, .host = 2, .file = 4});
  t.run(1, t.prompt(0, 8));
  t.manager().sink();
  t.run(2, t.prompt(1, 8));
  CHECK(num_on_their_way(t.look_up(t.prompt(0, 9))) == 2);
  t.finish_all();
  CHECK(num_on_their_way(t.look_up(t.prompt(0, 9))) == 0);
  t.sink_all();  // to the file, and the others' to the host
  t.sink_all();
  FoundBlocks found = t.look_up(t.prompt(0, 9));
  REQUIRE(tiers_of(found) == std::vector{1, 1});
  t.manager().finish_moves();
  CHECK(t.manager().fetch(found) == 2);
  t.manager().check_tiers();
  found = t.look_up(t.prompt(0, 9));
  CHECK(tiers_of(found) == std::vector{1, 1});
  CHECK(num_on_their_way(found) == 2);
  t.copies(1).step(1);
  t.manager().finish_moves();  // a batch is done as a whole
  CHECK(num_on_their_way(t.look_up(t.prompt(0, 9))) == 2);
  t.finish_all();
  found = t.look_up(t.prompt(0, 9));
  CHECK(tiers_of(found) == std::vector{0, 0});
  CHECK(num_on_their_way(found) == 0);
  CHECK(t.manager().tier_metrics(1).num_risen == 2);
  t.load(3, t.prompt(0, 9));
  CHECK(t.contents(3) == t.kv_of(t.prompt(0, 8)));
  t.manager().check_tiers();
}

TEST_CASE("blocks that rise do not take the place of those found beside them") {
  Tiers t({.device = 2, .host = 2, .file = 8});
  for (const int text : {0, 1}) {
    t.run(1, t.prompt(text, 8));
    t.manager().flush();
  }
  t.manager().fetch(t.look_up(t.prompt(0, 5)));  // its first block, over one of text 1
  t.finish_all();
  t.run(1, t.prompt(2, 8));
  t.load(2, t.prompt(1, 5));  // the other one of text 1 was used last
  const FoundBlocks found = t.look_up(t.prompt(0, 9));
  REQUIRE(tiers_of(found) == std::vector{0, 1});
  CHECK(t.manager().fetch(found) == 1);
  t.finish_all();
  CHECK(tiers_of(t.look_up(t.prompt(0, 9))) == std::vector{0, 0});
}

TEST_CASE("a load that too few blocks are free for changes nothing") {
  Tiers t({.device = 4, .host = 8});
  t.run(1, t.prompt(0, 12));
  t.sink_all();
  t.run(1, t.prompt(5, 16));
  t.compute(2, t.prompt(1, 8));
  const FoundBlocks found = t.look_up(t.prompt(0, 16));
  REQUIRE(sizes(found) == Sizes{0, 3});
  CHECK_FALSE(t.manager().load(3, found));
  CHECK_FALSE(t.manager().holds(3));
  t.manager().free(2);
  CHECK_FALSE(t.manager().load(3, found, 5));  // 3 blocks, and 2 for the tokens after them
  t.manager().check_tiers();
  CHECK(t.manager().load(3, found, 4));
}

TEST_CASE("blocks of a load that was cancelled go to somebody else, who writes them later") {
  Tiers t({.device = 2, .host = 4});
  t.run(1, t.prompt(0, 8));
  t.sink_all();
  t.run(2, t.prompt(1, 8));
  const auto ticket = t.manager().load(3, t.look_up(t.prompt(0, 9)));
  REQUIRE(ticket);
  t.manager().free(3);
  t.manager().check_tiers();
  const auto computed = t.manager().get_computed_blocks(t.prompt(2, 8), t.hashes(t.prompt(2, 8)));
  REQUIRE(t.manager().allocate_slots(4, 8, computed));
  SUBCASE("the ticket says when, once") {
    CHECK(t.manager().take_write_ticket() == *ticket);
    CHECK(t.manager().take_write_ticket() == 0);
  }
  SUBCASE("and what it writes stays") {
    t.write(4, t.prompt(2, 8), 0);
    t.finish_all();
    CHECK(t.contents(4) == t.kv_of(t.prompt(2, 8)));
  }
  SUBCASE("nothing is left to wait for when the copy has landed") {
    t.finish_all();
    t.manager().free(4);
    t.manager().take_write_ticket();
    REQUIRE(t.manager().allocate_slots(4, 8));
    CHECK(t.manager().take_write_ticket() == 0);
  }
  t.finish_all();
  t.manager().check_tiers();
}

TEST_CASE("a block that is being copied down is taken: it is written after the copy") {
  Tiers t({.device = 2, .host = 4});
  t.run(1, t.prompt(0, 8));
  t.manager().sink();
  t.run(2, t.prompt(1, 8));
  t.finish_all();
  t.load(3, t.prompt(0, 9));
  CHECK(t.contents(3) == t.kv_of(t.prompt(0, 8)));
}

TEST_CASE("who takes blocks of two batches waits for the second one") {
  Tiers t({.device = 2, .host = 4});
  for (const int text : {0, 1}) {
    t.run(1, t.prompt(text, 4));
    t.manager().sink();
  }
  REQUIRE(t.manager().moves(0).size() == 2);
  REQUIRE(t.manager().allocate_slots(2, 8));
  CHECK(t.manager().take_write_ticket() == t.manager().moves(0).back().ticket);
}

TEST_CASE("so many blocks sink ahead of eviction") {
  for (const int ahead : {0, 1, 2, 64}) {
    Tiers t({.device = 4, .host = 8, .options = {.sink_ahead = ahead}});
    t.run(1, t.prompt(0, 16));
    t.sink_all();
    CHECK(t.manager().tier_metrics(0).num_sunk == std::min(ahead, 4));
    t.sink_all();  // they have a copy now
    CHECK(t.manager().tier_metrics(0).num_sunk == std::min(ahead, 4));
    t.manager().check_tiers();
  }
}

TEST_CASE("of two blocks that hold the same one sinks") {
  Tiers t({.device = 4, .host = 8});
  const auto none = lesson06::kNone;
  for (const int64_t id : {1, 2}) {  // neither has looked
    REQUIRE(t.manager().allocate_slots(id, 4, none));
    t.write(id, t.prompt(0, 4), 0);
    t.cache(id, t.prompt(0, 4));
  }
  t.manager().free(1);
  t.manager().free(2);
  t.sink_all();
  CHECK(t.manager().tier_metrics(0).num_sunk == 1);
}

TEST_CASE("blocks of a small tier do not take each other's place for ever") {
  Tiers t({.device = 4, .host = 2, .file = 1});
  t.run(1, t.prompt(0, 16));
  for (int i = 0; i < 4; ++i) t.sink_all();
  CHECK(t.manager().tier_metrics(0).num_sunk == 2);
  CHECK(t.manager().tier_metrics(1).num_sunk == 1);
  t.run(2, t.prompt(1, 8));  // what was taken has sunk
  CHECK(sizes(t.look_up(t.prompt(0, 17))) == Sizes{8, 2});
}

TEST_CASE("of a prefix the tail is overwritten first, in every pool") {
  Tiers t({.device = 4, .host = 4, .file = 8});
  const Kv kv = t.kv_of(t.prompt(0, 16));
  const auto queue = [&](int tier) {  // the text's blocks, by number
    std::vector<int> order;
    for (const auto* const block : t.manager().tier_pool(tier).queue().all()) {
      const auto first = std::ranges::find(kv, t.content(tier + 1, block->id).front());
      if (first != kv.end()) order.push_back(static_cast<int>(first - kv.begin()) / 4);
    }
    return order;
  };
  const std::vector<int> tail_first{3, 2, 1, 0};
  t.run(1, t.prompt(0, 16));
  t.sink_all();
  CHECK(queue(0) == tail_first);
  t.sink_all();
  CHECK(queue(0) == tail_first);
  CHECK(queue(1) == tail_first);
  t.run(2, t.prompt(1, 16));
  t.sink_all();
  CHECK(queue(0).empty());
  t.sink_all();
  REQUIRE(t.manager().fetch(t.look_up(t.prompt(0, 17))) == 4);
  t.finish_all();
  CHECK(queue(0) == tail_first);
  CHECK(queue(1) == tail_first);
}

TEST_CASE("what few requests have found does not sink") {
  Tiers t({.device = 4, .host = 8, .options = {.min_hits_to_sink = 1}});
  t.run(1, t.prompt(0, 8));
  t.sink_all();
  CHECK(t.manager().tier_metrics(0).num_sunk == 0);
  t.run(2, t.prompt(0, 5));  // finds the first block
  t.sink_all();
  CHECK(t.manager().tier_metrics(0).num_sunk == 1);
  t.manager().flush();
  CHECK(t.manager().tier_metrics(0).num_sunk == 1);
}

TEST_CASE("a damaged block is found until somebody reads it, and nothing after it from then on") {
  Tiers t({.device = 3, .host = 3, .file = 6});
  t.run(1, t.prompt(0, 12));
  t.sink_all();
  t.sink_all();
  t.run(2, t.prompt(1, 12));
  t.sink_all();
  const FoundBlocks found = t.look_up(t.prompt(0, 13));
  REQUIRE(tiers_of(found) == std::vector{1, 1, 1});
  t.damage(1, found.below[1].id);
  t.sink_all();
  CHECK(t.manager().fetch(found) == 3);
  t.finish_all();
  CHECK(tiers_of(t.look_up(t.prompt(0, 13))) == std::vector{0});
  CHECK(t.manager().tier_metrics(1).num_damaged == 1);
  t.load(3, t.prompt(0, 13));
  CHECK(t.contents(3) == t.kv_of(t.prompt(0, 4)));
  t.manager().check_tiers();
}

TEST_CASE("a block that cannot be written is not found") {
  Tiers t({.device = 2, .host = 2, .file = 4});
  t.fill_disk(1);
  t.run(1, t.prompt(0, 8));
  t.sink_all();
  t.manager().sink();
  t.finish_all();
  CHECK(t.manager().tier_metrics(1).num_damaged == 2);
  CHECK(t.manager().tier_pool(1).num_cached() == 0);
  t.fill_disk(1, false);
  t.sink_all();
  CHECK(t.manager().tier_pool(1).num_cached() == 2);
  t.manager().check_tiers();
}

}  // namespace lesson11
