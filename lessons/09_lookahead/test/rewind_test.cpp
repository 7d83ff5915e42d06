// Tests of slots that are taken back.

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "lessons/06_prefix_hashing/test/requests.h"
#include "lessons/07_lru_eviction/test/queue_of.h"
#include "rewind.h"

namespace {

using namespace lesson06_test;
using lesson07::BlockPool;
using lesson07::FreeOrder;
using lesson07_test::queue_of;
using lesson09::KvCacheManager;
using lesson09::rewind;

constexpr int kBlockSize = 4;

struct Books {
  explicit Books(int num_blocks = 8, FreeOrder order = FreeOrder::kUnhashedFirst)
      : pool(num_blocks, kBlockSize, order), manager(pool) {}
  BlockPool pool;
  KvCacheManager manager;
};

}  // namespace

TEST_CASE("rewound to 0, 1, block_size - 1, block_size and block_size + 1 tokens") {
  for (const int kept : {0, 1, kBlockSize - 1, kBlockSize, kBlockSize + 1, 9, 10}) {
    CAPTURE(kept);
    Books b;
    REQUIRE(start(b.manager, 1, range(0, 10)));  // three blocks, nothing computed
    const Ids before = table_of(b.manager, 1);
    rewind(b.manager, b.pool, 1, kept);
    b.manager.check();
    CHECK(b.pool.metrics().num_revived == 0);  // no block that stays was free
    const int blocks = (kept + kBlockSize - 1) / kBlockSize;
    CHECK(b.manager.table(1).num_tokens() == kept);
    CHECK(table_of(b.manager, 1) == Ids(before.begin(), before.begin() + blocks));
    CHECK(b.pool.num_used() == blocks);
    CHECK(b.manager.holds(1));
    // The request goes on as if it had never been rewound.
    CHECK(b.manager.allocate_slots(1, 10 - kept).has_value());
    CHECK(b.manager.table(1).num_tokens() == 10);
    b.manager.check();
    b.manager.free(1);
    CHECK(b.pool.num_used() == 0);
  }
}

TEST_CASE("blocks that held only guesses go back, and are the next ones taken") {
  Books b;
  REQUIRE(start(b.manager, 1, range(0, 3)));
  const Ids before = table_of(b.manager, 1);
  const auto queue = queue_of(b.pool);
  for (int round = 0; round < 5; ++round) {
    REQUIRE(b.manager.allocate_slots(1, 7));  // two blocks more
    Ids with = table_of(b.manager, 1);
    std::ranges::sort(with.begin() + 1, with.end());  // the last one came back first
    CHECK(with == Ids{before[0], queue[0], queue[1]});
    rewind(b.manager, b.pool, 1, 3);
    CHECK(table_of(b.manager, 1) == before);
    b.manager.check();
  }
}

TEST_CASE("what guesses displaced is one block, however often they are wrong") {
  for (const FreeOrder order : {FreeOrder::kUnhashedFirst, FreeOrder::kAppend}) {
    Books b(4, order);
    REQUIRE(start(b.manager, 1, range(100, 108)));
    write(b.manager, 1, range(100, 108));
    b.manager.free(1);  // two blocks that can be found; two are empty
    REQUIRE(start(b.manager, 2, range(0, 4)));
    for (int round = 0; round < 5; ++round) {
      REQUIRE(b.manager.allocate_slots(2, 2));
      rewind(b.manager, b.pool, 2, 4);
    }
    // At the back of the queue an empty block is taken last, and all others before it.
    CHECK(b.pool.num_cached() == (order == FreeOrder::kUnhashedFirst ? 2 : 0));
  }
}

TEST_CASE("a shared block is never rewound: it can be found, so it was computed") {
  Books b;
  REQUIRE(start(b.manager, 1, range(0, 9)));
  write(b.manager, 1, range(0, 9));
  REQUIRE(start(b.manager, 2, range(0, 9)));  // shares two blocks
  CHECK(table_of(b.manager, 2)[1] == table_of(b.manager, 1)[1]);
  CHECK_THROWS_WITH_AS(rewind(b.manager, b.pool, 2, 7), doctest::Contains("wanted 8 to 9"),
                       std::invalid_argument);
  const auto queries = b.manager.prefix_cache_stats().queries;
  rewind(b.manager, b.pool, 2, 8);
  CHECK(b.manager.prefix_cache_stats().queries == queries);  // nothing was looked up
  b.manager.check();
  CHECK(b.manager.table(1).num_tokens() == 9);
  CHECK(found(b.manager, range(0, 9)) == 8);
  REQUIRE(b.manager.allocate_slots(2, 4));
  write(b.manager, 2, range(0, 12));
  CHECK(found(b.manager, range(0, 13)) == 12);  // the next block goes on where the chain ended
}

TEST_CASE("blocks full of rejected guesses can never be found") {
  Books b;
  REQUIRE(start(b.manager, 1, range(0, 3)));
  write(b.manager, 1, range(0, 3));
  REQUIRE(b.manager.allocate_slots(1, 9));  // guesses that fill two blocks and more
  rewind(b.manager, b.pool, 1, 3);
  CHECK(b.pool.num_cached() == 0);
  REQUIRE(b.manager.allocate_slots(1, 2));
  write(b.manager, 1, range(0, 5));
  CHECK(b.pool.num_cached() == 1);
  CHECK(found(b.manager, range(0, 12)) == 4);
}

TEST_CASE("a rewind that is wrong names the request and both bounds, and changes nothing") {
  Books b;
  REQUIRE(start(b.manager, 1, range(0, 6)));
  write(b.manager, 1, range(0, 6));
  const Ids before = table_of(b.manager, 1);
  const auto queue = queue_of(b.pool);
  for (const int tokens : {-1, 0, 3, 7, 1000}) {
    CAPTURE(tokens);
    CHECK_THROWS_WITH_AS(rewind(b.manager, b.pool, 1, tokens), doctest::Contains("wanted 4 to 6"),
                         std::invalid_argument);
  }
  CHECK_THROWS_WITH_AS(rewind(b.manager, b.pool, 2, 0), doctest::Contains("request 2"),
                       std::out_of_range);
  CHECK(table_of(b.manager, 1) == before);
  CHECK(b.manager.table(1).num_tokens() == 6);
  CHECK(queue_of(b.pool) == queue);
  b.manager.check();
}

TEST_CASE("without caching every token can be rewound") {
  BlockPool pool(4, kBlockSize);
  KvCacheManager manager(pool, {.caching = false});
  REQUIRE(start(manager, 1, range(0, 10)));
  write(manager, 1, range(0, 10));
  rewind(manager, pool, 1, 1);
  manager.check();
  CHECK(pool.num_used() == 1);
}
