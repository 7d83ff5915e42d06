// Tests of the pool under the manager of lesson 06: a cache, eviction, events.

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <vector>

#include "block_pool.h"
#include "cli/trace.h"
#include "lessons/06_prefix_hashing/test/wrong_use.h"
#include "queue_of.h"

namespace {

using lesson07::BlockPool;
using lesson07::CacheEvent;
using lesson07_test::queue_of;
using namespace lesson06_test;

/// A pool, its manager, and the events since the last look.
struct Cache {
  Cache(int num_blocks, int block_size) : pool(num_blocks, block_size), manager(pool) {
    pool.set_event_sink([this](const CacheEvent& event) { events.push_back(event); });
  }
  BlockPool pool;
  KvCacheManager manager;
  std::vector<CacheEvent> events;
};

}  // namespace

TEST_CASE("the null block is never allocated, freed, touched or cached") {
  BlockPool pool(3, 4);
  CHECK(pool.num_blocks() == 3);
  CHECK(pool.num_free() == 3);
  Ids all(3), one{-5};
  REQUIRE(pool.get_new_blocks(all));
  CHECK(all == Ids{1, 2, 3});
  CHECK_FALSE(pool.get_new_blocks(one));
  CHECK(one == Ids{-5});
  const Ids null{BlockPool::kNullBlock};
  CHECK_THROWS_WITH_AS(pool.free_blocks(null), doctest::Contains("null block"), std::logic_error);
  CHECK_THROWS_WITH_AS(pool.touch(null), doctest::Contains("null block"), std::logic_error);
  CHECK_THROWS_WITH_AS(pool.cache_full_block(0, {}), doctest::Contains("null block"),
                       std::logic_error);
  pool.check();
}

TEST_CASE("wrong use is named and changes nothing") {
  BlockPool pool(4, 4);
  check_wrong_use(pool, 1);
  CHECK(pool.metrics().num_stored == 1);
  CHECK_THROWS_AS(BlockPool(0, 4), std::invalid_argument);
  CHECK_THROWS_AS(BlockPool(4, 0), std::invalid_argument);
}

TEST_CASE("a freed block is revived from the middle of the queue with all it holds") {
  Cache c(8, 4);
  run(c.manager, 1, range(0, 13));  // blocks 1 2 3 4
  c.manager.free(1);
  CHECK(queue_of(c.pool) == Ids{5, 6, 7, 8, 4, 3, 2, 1});
  CHECK(run(c.manager, 2, range(0, 9)) == 8);  // revives 1 and 2; takes 5
  CHECK(table_of(c.manager, 2) == Ids{1, 2, 5});
  CHECK(queue_of(c.pool) == Ids{6, 7, 8, 4, 3});
  CHECK(std::ranges::equal(c.pool.index().tokens(1), range(0, 4)));
  CHECK(c.pool.metrics().num_revived == 2);
  CHECK(c.pool.metrics().num_evicted == 0);
}

TEST_CASE("the victim is the least recently used block, and of one request the tail") {
  Cache c(6, 4);
  run(c.manager, 1, range(0, 8));      // 1 2
  run(c.manager, 2, range(100, 108));  // 3 4
  run(c.manager, 3, range(200, 208));  // 5 6
  for (const int64_t id : {2, 1, 3}) c.manager.free(id);
  CHECK(queue_of(c.pool) == Ids{4, 3, 2, 1, 6, 5});
  CHECK(run_and_free(c.manager, range(100, 109)) == 8);  // used again: its blocks go to the end
  CHECK(queue_of(c.pool) == Ids{1, 6, 5, 2, 4, 3});
  c.events.clear();
  run(c.manager, 4, range(300, 304));
  CHECK(table_of(c.manager, 4) == Ids{1});
  REQUIRE(c.events.size() == 2);
  CHECK(c.events[0].kind == CacheEvent::Kind::kRemoved);
  CHECK(c.events[0].block_id == 1);
  CHECK(c.events[1].kind == CacheEvent::Kind::kStored);
}

// kvcached #362: an evicted block kept the hash of its old content.
TEST_CASE("what is taken for something else is not found under its old name") {
  Cache c(2, 4);
  run_and_free(c.manager, range(0, 4));
  run_and_free(c.manager, range(50, 58));
  CHECK(c.pool.num_cached() == 2);
  CHECK(found(c.manager, range(0, 5)) == 0);
}

// vLLM #42948: blocks that a request could have found were given to that request as empty ones.
// #11310: how hits on free blocks were once counted.
TEST_CASE("a start that does not fit changes nothing: no reference, no order, no event") {
  Cache c(4, 4);
  run_and_free(c.manager, range(0, 8));
  run_and_free(c.manager, range(100, 104));
  run(c.manager, 1, range(200, 204));
  c.events.clear();
  const Ids before = queue_of(c.pool);
  CHECK(before.size() == 3);
  // 8 tokens are cached in two free blocks; 8 more need two, and one is left beside them.
  CHECK_FALSE(start(c.manager, 2, range(0, 16)));
  CHECK(queue_of(c.pool) == before);
  CHECK(c.events.empty());
  CHECK_FALSE(c.manager.holds(2));
  CHECK(found(c.manager, range(0, 12)) == 8);
  REQUIRE(start(c.manager, 2, range(0, 12)));
  c.manager.check();
}

// vLLM #12284: a reset is possible only when all blocks are free, and says whether it was.
TEST_CASE("the cache is reset only when nobody uses a block") {
  Cache c(8, 4);
  run(c.manager, 1, range(0, 9));
  CHECK_FALSE(c.pool.reset_prefix_cache());
  CHECK(c.pool.num_cached() == 2);
  c.manager.free(1);
  CHECK(c.pool.reset_prefix_cache());
  CHECK(c.pool.num_cached() == 0);
  CHECK(c.events.back().kind == CacheEvent::Kind::kCleared);
  CHECK(run_and_free(c.manager, range(0, 9)) == 0);
}

TEST_CASE("events tell a reader just what is cached") {
  Cache c(6, 2);
  std::mt19937 rng(5);
  std::vector<std::optional<uint64_t>> mirror(7);
  for (int step = 0; step < 500; ++step) {
    const Tokens tokens{static_cast<int32_t>(rng() % 3), static_cast<int32_t>(rng() % 3),
                        static_cast<int32_t>(rng() % 3), 1, 2};
    run_and_free(c.manager, tokens);
    for (const CacheEvent& event : std::exchange(c.events, {})) {
      auto& seen = mirror.at(event.block_id);
      if (event.kind == CacheEvent::Kind::kStored) {
        REQUIRE_FALSE(seen.has_value());
        seen = event.hash;
      } else {
        REQUIRE(seen == event.hash);
        seen.reset();
      }
    }
    for (int32_t id = 1; id <= 6; ++id) {
      REQUIRE(mirror[id].has_value() == c.pool.block(id).is_cached);
    }
  }
}

TEST_CASE("metrics: what was stored, revived, evicted, and evicted unused") {
  Cache c(2, 4);
  run_and_free(c.manager, range(0, 8));    // stores two
  run_and_free(c.manager, range(0, 5));    // one hit; evicts the second
  run_and_free(c.manager, range(50, 58));  // evicts the first
  const auto& m = c.pool.metrics();
  CHECK(m.num_stored == 4);
  CHECK(m.num_evicted == 2);
  CHECK(m.num_evicted_unused == 1);
  CHECK(m.num_revived == 1);
  run_and_free(c.manager, range(70, 78));  // evicts both blocks, which no request has found
  CHECK(m.num_evicted == 4);
  CHECK(m.num_evicted_unused == 3);
}

TEST_CASE("a trace is deterministic, and conversations go on where they were") {
  const auto a = lesson07::make_trace({.num_requests = 200}),
             b = lesson07::make_trace({.num_requests = 200});
  REQUIRE(a.size() == 200);
  int going_on = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    REQUIRE(a[i].prompt == b[i].prompt);
    for (size_t j = 0; j < i; ++j) {
      Tokens before = a[j].prompt;
      before.insert(before.end(), a[j].answer.begin(), a[j].answer.end());
      going_on += before.size() < a[i].prompt.size() &&
                  std::equal(before.begin(), before.end(), a[i].prompt.begin());
    }
  }
  CHECK(going_on > 50);
}
