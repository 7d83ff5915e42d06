// Which blocks of the host are found, and how they are loaded: without a byte of K and V.

#include "two_pools.h"

using namespace lesson11_test;

TEST_CASE("a small host has what the device evicts next") {
  TwoPools t({.device = 4, .host = 2});
  t.evict_to_host(16, t.prompt(1, 8));  // takes the two that have copies
  CHECK(t.num_on_device(t.prompt(0, 17)) == 8);
  CHECK(t.find_in_host(t.prompt(0, 17)) == Ids{2, 1});
}

TEST_CASE("full blocks of the host are found, but never the last token") {
  TwoPools t;
  t.evict_to_host(12, t.prompt(1, 16));  // evicts it
  for (const int n : {1, 4, 5, 8, 9, 13, 16, 17, 19}) {
    CAPTURE(n);
    CHECK(std::ssize(t.find_in_host(t.prompt(0, n))) == std::min(3, (n - 1) / 4));
  }
}

TEST_CASE("what the host has is asked for from where the device ends") {
  TwoPools t({.device = 5});
  // The host's blocks 1 to 4 hold the tail first.
  t.evict_to_host(16, t.prompt(1, 12));  // takes the free block and the last two of text 0
  REQUIRE(t.num_on_device(t.prompt(0, 17)) == 8);
  CHECK(t.find_in_host(t.prompt(0, 17)) == Ids{2, 1});
}

TEST_CASE("the same tokens after another prefix are another block") {
  TwoPools t({.cache = {.hasher = {.mask = 0}}});  // all hashes are equal
  const auto joined = [](Tokens a, const Tokens& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  const Tokens head = t.prompt(0, 4), other = t.prompt(1, 4), tail = t.prompt(2, 4);
  t.run(1, joined(head, tail));
  t.offload_all();
  t.run(2, t.prompt(3, 16));
  t.run(3, other);
  CHECK(t.find_in_host(joined(joined(other, tail), {7})).empty());
  CHECK(t.find_in_host(joined(joined(head, tail), {7})).size() == 2);
  CHECK(t.find_in_host(joined(joined(head, other), joined(tail, {7}))).size() == 1);  // no gap
}

TEST_CASE("a prefix has one number in both pools, so what comes after it is found") {
  TwoPools t({.device = 3, .host = 4});
  t.evict_to_host(8, t.prompt(1, 12));
  t.run(3, t.prompt(0, 4));  // computes the first block again
  CHECK(t.find_in_host(t.prompt(0, 9)).size() == 1);
}

TEST_CASE("what the device has evicted is loaded from the host") {
  TwoPools t;
  t.evict_to_host(16, t.prompt(1, 16));  // evicts it
  CHECK(t.num_on_device(t.prompt(0, 17)) == 0);
  CHECK(t.load(3, t.prompt(0, 16)));  // the last token is computed, and with it its block
  CHECK(t.in_flight(Direction::kLoad).size() == 3);
  CHECK(t.device.num_used() == 3);
  CHECK(t.manager.is_loading(3));
  CHECK_FALSE(t.manager.allocate_slots(3, 16));
  CHECK_FALSE(t.manager.holds(3));  // the blocks are the load's until it is complete
  t.manager.check();
}

TEST_CASE("blocks that are loaded are found when all of them are there, and free") {
  TwoPools t;
  t.evict_to_host(16, t.prompt(1, 16));
  REQUIRE(t.load(3, t.prompt(0, 16)));
  t.copies.step(2);
  t.manager.complete();
  CHECK(t.num_on_device(t.prompt(0, 17)) == 0);  // a job is complete as a whole
  CHECK(t.manager.is_loading(3));
  t.finish_all();
  CHECK_FALSE(t.manager.is_loading(3));
  CHECK(t.num_on_device(t.prompt(0, 17)) == 12);
  CHECK(t.device.num_used() == 0);
  t.compute(3, t.prompt(0, 16));
  CHECK(t.manager.metrics().num_hits_in_host == 3);
  CHECK(t.manager.metrics().num_hits_on_device == 0);
}

TEST_CASE("each load ends with its own job") {
  TwoPools t({.device = 6, .host = 16});
  t.evict_two_to_host(t.prompt(5, 24));
  REQUIRE(t.load(3, t.prompt(0, 9)));
  REQUIRE(t.load(4, t.prompt(1, 9)));
  int64_t room = 3;
  REQUIRE(t.load(5, t.prompt(0, 9), room));  // waits for the first load
  bool both = false;
  SUBCASE("the first one alone") { t.copies.step(2); }
  SUBCASE("both at once") {
    both = true;
    t.copies.step(4);
  }
  t.manager.complete();
  CHECK_FALSE(t.manager.is_loading(3));
  CHECK_FALSE(t.manager.is_loading(5));
  CHECK(t.manager.is_loading(4) == !both);
  CHECK(t.num_on_device(t.prompt(0, 9)) == 8);
  CHECK(t.num_on_device(t.prompt(1, 9)) == (both ? 8 : 0));
}

TEST_CASE("what is loaded keeps its extra keys") {
  TwoPools t;
  const Tokens tokens = t.prompt(0, 9);
  BlockHashes hashes(keys_of(1)), again(keys_of(1));
  REQUIRE(t.manager.allocate_slots(1, 8));
  t.manager.cache_blocks(1, t.prompt(0, 8), hashes, 8);
  t.manager.free(1);
  t.offload_all();
  t.run(2, t.prompt(1, 16));
  int64_t room = 4;
  REQUIRE(t.load(3, tokens, room, 1));
  t.finish_all();
  CHECK(t.manager.get_computed_blocks(tokens, again).num_tokens == 8);
  CHECK(t.num_on_device(tokens) == 0);  // without a key
}

TEST_CASE("a prompt that was loaded in part stays together in the queue, the tail first") {
  TwoPools t({.device = 5});
  t.evict_to_host(16, t.prompt(1, 12));
  REQUIRE(t.load(3, t.prompt(0, 17)));
  t.finish_all();
  CHECK(t.num_on_device(t.prompt(0, 17)) == 16);
  const Ids queue = queue_of(t.device);
  for (size_t i = 1; i < 4; ++i) {
    CHECK(t.content(Direction::kOffload, queue[i]) > t.content(Direction::kOffload, queue[i + 1]));
  }
  t.compute(3, t.prompt(0, 9));  // finds the two blocks that were not loaded
  CHECK(t.manager.metrics().num_hits_on_device == 2);
  CHECK(t.manager.metrics().num_hits_in_host == 0);
}

TEST_CASE("a load for which too few blocks are free changes nothing") {
  TwoPools t;
  t.run(1, t.prompt(0, 16));
  t.offload_all();
  t.compute(2, t.prompt(1, 8));  // two blocks stay free, and hold the first tokens of text 0
  int64_t room = 5;              // more than there is
  CHECK_THROWS_AS(t.load(3, t.prompt(0, 17), room), std::logic_error);
  CHECK_FALSE(t.manager.is_loading(3));
  CHECK(t.copies.queue().empty());
  CHECK(t.device.num_used() == 2);
  t.manager.free(2);
  room = 5;
  CHECK(t.load(3, t.prompt(0, 17), room));
  CHECK(t.manager.is_loading(3));  // just enough
}

TEST_CASE("a load has the room that the requests before it leave") {
  TwoPools t({.device = 5, .host = 16});
  t.evict_two_to_host(t.prompt(5, 20));
  int64_t room = 5;
  CHECK(t.load(3, t.prompt(0, 9), room));  // two blocks are loaded, one is computed
  CHECK(room == 2);
  CHECK_FALSE(t.load(4, t.prompt(1, 9), room));
  CHECK(t.in_flight(Direction::kLoad).size() == 2);
}

TEST_CASE("a request that is loading has its blocks, and needs room for the others alone") {
  TwoPools t({.device = 5});
  t.evict_to_host(16, t.prompt(1, 12));
  CHECK(t.load(3, t.prompt(0, 17)));  // two of five blocks are here, and two are loaded
  CHECK(t.device.num_used() == 4);
  t.manager.check();
  int64_t room = 2;
  CHECK(t.load(3, t.prompt(0, 17), room));
  CHECK(room == 1);
  CHECK(t.in_flight(Direction::kLoad).size() == 2);
  CHECK(t.load(3, t.prompt(0, 17), room));
  CHECK(room == 0);  // just enough
}

TEST_CASE("two requests that want the same blocks load them once") {
  TwoPools t({.device = 8, .host = 16});
  t.evict_two_to_host(t.prompt(5, 32));
  int64_t room = 15;
  CHECK(t.load(3, t.prompt(0, 9), room));
  CHECK(t.load(7, t.prompt(1, 9), room));
  CHECK(t.load(4, t.prompt(0, 12), room));
  CHECK(t.load(8, t.prompt(1, 12), room));  // what the second load has
  CHECK(t.in_flight(Direction::kLoad).size() == 4);
  CHECK(t.manager.is_loading(4));
  t.run(5, t.prompt(0, 4));  // computes the first block: the load has the second one, too
  CHECK(t.load(6, t.prompt(0, 9), room));
  CHECK(t.in_flight(Direction::kLoad).size() == 4);
}

TEST_CASE("a request that wants more than another one loads waits for it first") {
  TwoPools t({.device = 6});
  t.evict_to_host(12, t.prompt(1, 24));
  CHECK(t.load(3, t.prompt(0, 9)));
  CHECK(t.load(4, t.prompt(0, 13)));
  CHECK(t.in_flight(Direction::kLoad).size() == 2);
  CHECK(t.manager.is_loading(4));
  int64_t room = 3;  // one too few: no block that is being loaded is its own
  CHECK_FALSE(t.load(4, t.prompt(0, 13), room));
}

TEST_CASE("a load that cannot be started leaves both pools as they were") {
  TwoPools t;
  t.evict_to_host(8, t.prompt(1, 16));
  t.copies.refuses = true;
  CHECK_THROWS(t.load(3, t.prompt(0, 9)));
  CHECK_FALSE(t.manager.is_loading(3));
  CHECK(t.device.num_used() == 0);
  CHECK(t.host.num_cached() == 2);
  t.manager.check();
}

TEST_CASE("a reset forgets both pools, after the loads in flight") {
  TwoPools t;
  t.evict_to_host(8, t.prompt(1, 16));
  t.load(3, t.prompt(0, 9));
  CHECK(t.manager.reset_prefix_cache());
  CHECK(t.copies.queue().empty());
  CHECK(t.host.num_cached() == 0);
  CHECK(t.num_on_device(t.prompt(0, 9)) == 0);
  t.compute(3, t.prompt(0, 9));
  CHECK_FALSE(t.manager.reset_prefix_cache());
}

TEST_CASE("without caching nothing is found in the host") {
  const TwoPools t({.cache = {.caching = false}});
  CHECK(t.find_in_host(t.prompt(0, 9)).empty());
}

TEST_CASE("without caching nothing is loaded, and the room counts all the same") {
  TwoPools t({.cache = {.caching = false}});
  int64_t room = 4;
  CHECK(t.load(1, t.prompt(0, 9), room));
  CHECK(room == 1);
  room = 3;
  CHECK(t.load(2, t.prompt(0, 9), room));
  CHECK(room == 0);  // just enough
  CHECK(t.copies.started() == 0);
}
