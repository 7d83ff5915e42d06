// Tests of the pool alone: which block is free, in which order, and what a taken one forgets.

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "block_pool.h"
#include "queue_of.h"

namespace {

using lesson07::BlockKey;
using lesson07::BlockPool;
using lesson07::CacheEvent;
using lesson07::FreeOrder;
using lesson07_test::queue_of;
using Ids = std::vector<int32_t>;

/// The first block of a prompt of 4 times `token`.
struct Prefix {
  explicit Prefix(int32_t token) : tokens(4, token) {}
  BlockKey key() const {
    return {.hash = static_cast<uint64_t>(100 + tokens[0]),
            .parent = {},
            .tokens = tokens,
            .extra_keys = {}};
  }
  std::vector<int32_t> tokens;
};

/// Puts the block into use and caches `token`'s prefix in it.
void store(BlockPool& pool, int32_t id, int32_t token) {
  pool.touch(Ids{id});
  pool.cache_full_block(id, Prefix(token).key());
}

/// The block that caches `token`'s prefix; -1 means none.
int32_t found(const BlockPool& pool, int32_t token) {
  const lesson06::CachedBlock* const block = pool.index().find(Prefix(token).key());
  return block == nullptr ? -1 : block->id;
}

Ids take(BlockPool& pool, size_t count) {
  Ids ids(count, -5);
  REQUIRE(pool.get_new_blocks(ids));
  return ids;
}

}  // namespace

TEST_CASE("a touched block leaves the queue from wherever it is") {
  BlockPool pool(5, 4);
  // Block 1 was found before. To free it is a later step of the exercise.
  const_cast<lesson07::KvBlock&>(pool.block(1)).num_hits = 4;
  pool.touch(Ids{3, 1});
  CHECK(queue_of(pool) == Ids{2, 4, 5});
  for (const int32_t id : {1, 3}) {
    CAPTURE(id);
    CHECK(pool.ref_cnt(id) == 1);
    CHECK(pool.block(id).num_hits == (id == 1 ? 5 : 1));
  }
  CHECK(pool.metrics().num_revived == 2);
  pool.touch(Ids{3});  // it is in use: nothing leaves the queue
  CHECK(queue_of(pool) == Ids{2, 4, 5});
  CHECK(pool.ref_cnt(3) == 2);
  CHECK(pool.block(3).num_hits == 2);
  CHECK(pool.metrics().num_revived == 2);
}

TEST_CASE("a touch that is refused changes nothing, not even the blocks before the wrong one") {
  BlockPool pool(3, 4);
  CHECK_THROWS_AS(pool.touch(Ids{2, 9}), std::out_of_range);
  CHECK_THROWS_AS(pool.touch(Ids{2, BlockPool::kNullBlock}), std::logic_error);
  CHECK(pool.ref_cnt(2) == 0);
  CHECK(queue_of(pool) == Ids{1, 2, 3});
}

TEST_CASE("freed blocks go to the back of the queue, the tail first") {
  BlockPool pool(6, 4);
  pool.touch(Ids{1, 2, 3});
  pool.free_blocks(Ids{1, 2, 3});
  CHECK(queue_of(pool) == Ids{4, 5, 6, 3, 2, 1});
  CHECK(pool.ref_cnt(1) == 0);
  pool.free_blocks({});
  CHECK(queue_of(pool) == Ids{4, 5, 6, 3, 2, 1});
}

TEST_CASE("a block that another table holds loses a reference, and is not free yet") {
  BlockPool pool(4, 4);
  pool.touch(Ids{1, 2});
  pool.touch(Ids{1, 3});
  pool.free_blocks(Ids{1, 2});
  CHECK(queue_of(pool) == Ids{4, 2});
  CHECK(pool.ref_cnt(1) == 1);
  pool.free_blocks(Ids{1, 3});
  CHECK(queue_of(pool) == Ids{4, 2, 3, 1});
  pool.touch(Ids{1});
  CHECK(pool.block(1).num_hits == 3);  // neither a free nor a revival forgets hits
  store(pool, 1, 10);
  pool.free_blocks(Ids{1});
  pool.free_blocks(Ids{1});
  pool.touch(Ids{1});
  CHECK(pool.block(1).is_cached);  // nor what the block holds
  CHECK(queue_of(pool) == Ids{4, 2, 3});
}

TEST_CASE("a free that is refused changes nothing, not even the blocks before the wrong one") {
  BlockPool pool(4, 4);
  pool.touch(Ids{1, 2});
  // A free block, a block with one reference that is named twice, the null block, an unknown block.
  for (const Ids& wrong : {Ids{1, 3}, Ids{2, 1, 1}, Ids{1, BlockPool::kNullBlock}, Ids{1, 5}}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(pool.free_blocks(wrong), std::logic_error);
    CHECK(pool.ref_cnt(1) == 1);
    CHECK(pool.ref_cnt(2) == 1);
    CHECK(queue_of(pool) == Ids{3, 4});
  }
  CHECK_THROWS_AS(pool.free_blocks(Ids{1, 5}), std::out_of_range);
  pool.touch(Ids{1});  // two tables hold it, and each names it once
  CHECK_THROWS_AS(pool.free_blocks(Ids{1, 2, 1}), std::logic_error);
  CHECK(pool.ref_cnt(1) == 2);
  CHECK(pool.ref_cnt(2) == 1);
  CHECK(queue_of(pool) == Ids{3, 4});
}

TEST_CASE("blocks that nobody can find go first if the order says so, tail first like all others") {
  for (const FreeOrder order : {FreeOrder::kAppend, FreeOrder::kUnhashedFirst}) {
    const bool append = order == FreeOrder::kAppend;
    INFO(std::string(append ? "kAppend" : "kUnhashedFirst"));
    BlockPool pool(7, 4, order);
    store(pool, 1, 10);
    store(pool, 2, 20);
    pool.touch(Ids{3, 4, 5});  // 1 and 2 can be found, 3, 4 and 5 cannot
    pool.touch(Ids{5});        // another table has it, too
    pool.free_blocks(Ids{1, 2, 3, 4, 5});
    CHECK(queue_of(pool) == (append ? Ids{6, 7, 4, 3, 2, 1} : Ids{4, 3, 6, 7, 2, 1}));
  }
}

TEST_CASE("new blocks come from the front of the queue, each with one reference") {
  BlockPool pool(5, 4);
  pool.touch(Ids{1});
  pool.free_blocks(Ids{1});
  CHECK(queue_of(pool) == Ids{2, 3, 4, 5, 1});
  CHECK(take(pool, 2) == Ids{2, 3});
  CHECK(pool.ref_cnt(2) == 1);
  CHECK(pool.ref_cnt(3) == 1);
  CHECK(queue_of(pool) == Ids{4, 5, 1});
  CHECK(take(pool, 3) == Ids{4, 5, 1});
}

TEST_CASE("new blocks: all, or none and nothing has changed") {
  BlockPool pool(3, 4);
  store(pool, 1, 10);
  pool.free_blocks(Ids{1});
  Ids four(4, -5), one(1, -5);
  CHECK_FALSE(pool.get_new_blocks(four));
  CHECK(four == Ids{-5, -5, -5, -5});
  CHECK(queue_of(pool) == Ids{2, 3, 1});
  CHECK(found(pool, 10) == 1);
  CHECK(take(pool, 3) == Ids{2, 3, 1});
  CHECK_FALSE(pool.get_new_blocks(one));
  CHECK(pool.get_new_blocks({}));  // no blocks fit always
}

TEST_CASE("a free block keeps what it holds until it is taken") {
  BlockPool pool(3, 4);
  store(pool, 1, 10);
  pool.free_blocks(Ids{1});
  pool.touch(Ids{2});  // it holds nothing, and comes after 1 all the same
  pool.free_blocks(Ids{2});
  take(pool, 1);
  CHECK(found(pool, 10) == 1);
  CHECK(pool.block(1).is_cached);
  REQUIRE(take(pool, 1) == Ids{1});
  CHECK(found(pool, 10) == -1);
  CHECK_FALSE(pool.block(1).is_cached);
  CHECK(pool.num_cached() == 0);
}

TEST_CASE("of two blocks with the same content the one that is not taken stays") {
  BlockPool pool(3, 4);
  store(pool, 1, 10);
  store(pool, 2, 10);
  pool.free_blocks(Ids{1, 2});
  REQUIRE(take(pool, 2) == Ids{3, 2});
  CHECK(pool.num_cached() == 1);
  CHECK(found(pool, 10) == 1);
}

TEST_CASE("an eviction is counted, and told with the block and its hash") {
  BlockPool pool(3, 4);
  std::vector<CacheEvent> events;
  for (const int32_t id : {1, 2, 3}) store(pool, id, 10 * id);
  pool.touch(Ids{1});  // a request finds it
  pool.free_blocks(Ids{1});
  pool.free_blocks(Ids{1, 2, 3});
  pool.set_event_sink([&](const CacheEvent& event) {
    events.push_back(event);
    CHECK(pool.index().block(event.block_id) == nullptr);  // forgotten before it is told
  });
  REQUIRE(take(pool, 3) == Ids{3, 2, 1});
  CHECK(pool.metrics().num_evicted == 3);
  CHECK(pool.metrics().num_evicted_unused == 2);  // no request has found blocks 2 and 3
  REQUIRE(events.size() == 3);
  CHECK(events[0].kind == CacheEvent::Kind::kRemoved);
  CHECK(events[0].block_id == 3);
  CHECK(events[0].hash == 130);
  CHECK(events[2].block_id == 1);
  pool.free_blocks(Ids{1, 2, 3});
  take(pool, 3);  // they held nothing
  CHECK(pool.metrics().num_evicted == 3);
  pool.set_event_sink({});
  pool.cache_full_block(1, Prefix(40).key());
  pool.free_blocks(Ids{1, 2, 3});
  REQUIRE(pool.reset_prefix_cache());  // what is cleared is not evicted
  store(pool, 2, 50);
  pool.evict_blocks(Ids{2});  // a block in use
  CHECK(found(pool, 50) == -1);
  CHECK(pool.metrics().num_evicted == 4);
}
