// Tests of the blocks that fall out of a window, and of the moment when they do.

#include <stdexcept>

#include "kernels/attention/contract.h"
#include "tables.h"

using namespace lesson10_test;

TEST_CASE("a block is forgotten when the last of its tokens has left the window") {
  for (const int window : {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 1000}) {
    CAPTURE(window);
    Groups g({0, window});
    REQUIRE(g.manager.allocate_slots(1, 1));
    for (int position = 1; position < 60; ++position) {
      CAPTURE(position);
      const Ids before = g.table(1, 1);
      REQUIRE(g.manager.allocate_slots(1, 1));  // for the token at this position
      const int seen = kv::attention::first_key(position, window);
      const int held = g.manager.first_block(1, 1);
      CHECK(held == seen / 4);
      for (int i = 0; i < held; ++i) CHECK(g.table(1, 1)[i] == 0);
      for (int i = held; i <= position / 4; ++i) {
        const size_t at = i;
        CHECK(g.table(1, 1)[at] > 0);
        if (at < before.size()) CHECK(g.table(1, 1)[at] == before[at]);  // a block never moves
      }
      CHECK(g.table(1, 0).size() == g.table(1, 1).size());
      g.manager.check();
    }
  }
}

TEST_CASE("a chunk longer than the window: what its first query sees is still there") {
  for (const int window : {1, 3, 4, 5, 6}) {
    for (const int chunk : {6, 7, 8, 30}) {
      CAPTURE(window);
      CAPTURE(chunk);
      Groups g({0, window});
      for (int computed = 0; computed < 3 * chunk; computed += chunk) {
        REQUIRE(g.manager.allocate_slots(1, chunk));
        CHECK(g.manager.first_block(1, 1) == kv::attention::first_key(computed, window) / 4);
        g.manager.check();
      }
    }
  }
}

TEST_CASE("a shared block is forgotten by one request, and held by the other one") {
  Groups g({0, 6});
  run(g.manager, 1, range(0, 9));
  CHECK(run(g.manager, 2, range(0, 10)) == 8);
  const int32_t shared = g.table(1, 1)[1];
  CHECK(g.table(2, 1)[1] == shared);
  CHECK(g.pool.ref_cnt(shared) == 2);
  g.decode(1, range(0, 14), 9);
  CHECK(g.table(1, 1)[1] == 0);
  CHECK(g.pool.ref_cnt(shared) == 1);
  CHECK(g.table(2, 1)[1] == shared);
}

TEST_CASE("no more blocks are held at once than was said, and just as many at the worst moment") {
  for (const int window : {1, 2, 3, 4, 5, 8, 11, 100}) {
    for (const int chunk : {1, 2, 3, 4, 5, 9}) {
      CAPTURE(window);
      CAPTURE(chunk);
      int64_t most = 0, said = 0;
      for (int first = 1; first <= chunk; ++first) {  // where chunks begin in a block
        Groups g({0, window}, 200, chunk);
        int64_t held = 0;
        int num_tokens = 0;
        for (int next = first; num_tokens < 60; num_tokens += std::exchange(next, chunk)) {
          REQUIRE(g.manager.allocate_slots(1, next));
          held = std::max<int64_t>(held, g.pool.num_used());
          CHECK(held <= g.manager.max_blocks(num_tokens + next));
        }
        most = std::max(most, held - g.manager.table(1).num_blocks());
        said = std::max(said, g.manager.max_blocks(num_tokens) - g.manager.table(1).num_blocks());
      }
      // With steps of 4 all chunks begin at one place in a block or few: a block may be saved.
      CHECK(most <= said);
      if (chunk % 2 == 1 && window < 60) CHECK(most == said);
    }
  }
}

TEST_CASE("wrong use is refused and named") {
  BlockPool pool(8, 4);
  using lesson10::SlidingWindowManager;
  CHECK_THROWS_WITH_AS(SlidingWindowManager(pool, 0, 4), doctest::Contains("group 0"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(SlidingWindowManager(pool, 1, -1), doctest::Contains("a window of -1"),
                       std::invalid_argument);
  CHECK_THROWS_AS(KvCacheCoordinator(pool, {}), std::invalid_argument);
  CHECK_THROWS_AS(KvCacheCoordinator(pool, groups_of({4, 0})), std::invalid_argument);
  SlidingWindowManager manager(pool, 2, 4);
  CHECK_THROWS_WITH_AS(manager.table(7), doctest::Contains("request 7 has no table in group 2"),
                       std::out_of_range);
  CHECK_THROWS_AS(manager.free(7), std::out_of_range);

  Groups g({0, 4});
  run(g.manager, 1, range(0, 9));
  const auto computed = look_up(g.manager, range(0, 9));
  const Ids queue = g.queue();
  CHECK_THROWS_AS(g.manager.allocate_slots(1, 1, computed), std::invalid_argument);
  CHECK_THROWS_AS(g.manager.allocate_slots(1, -1), std::invalid_argument);
  CHECK_FALSE(g.manager.allocate_slots(2, INT32_MAX, computed));
  CHECK_THROWS_AS(g.manager.allocate_slots(2, -1), std::invalid_argument);
  CHECK_THROWS_AS(g.manager.free(2), std::out_of_range);
  CHECK_THROWS_AS(g.manager.table(2, 1), std::out_of_range);
  CHECK_THROWS_AS(g.manager.table(1, 2), std::out_of_range);
  lesson06::BlockHashes hashes;
  CHECK_THROWS_AS(g.manager.cache_blocks(1, range(0, 12), hashes, 12), std::invalid_argument);
  CHECK(g.queue() == queue);
  g.manager.check();
}
