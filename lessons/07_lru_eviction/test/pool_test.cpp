// Tests of lesson 07's bookkeeping: the queue, the pool as a cache, keys, eviction.

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "block_key.h"
#include "block_manager.h"
#include "block_pool.h"
#include "free_block_queue.h"
#include "lessons/06_prefix_hashing/block_hash.h"
#include "trace.h"

namespace {

using lesson07::BlockManager;
using lesson07::BlockPool;
using lesson07::CacheEvent;
using lesson07::ExtraKey;
using lesson07::ExtraKeys;
using lesson07::FreeBlockQueue;
using lesson07::FreeOrder;
using lesson07::Growth;
using lesson07::KvBlock;
using Tokens = std::vector<int32_t>;
using Ids = std::vector<int32_t>;

Tokens range(int32_t begin, int32_t end) {
  Tokens tokens(static_cast<size_t>(end - begin));
  std::iota(tokens.begin(), tokens.end(), begin);
  return tokens;
}

Ids queue_of(const BlockPool& pool) {
  Ids ids;
  for (const KvBlock* block : pool.queue().all()) ids.push_back(block->id);
  return ids;
}

Ids table_of(const BlockManager& manager, int seq) {
  const auto ids = manager.table(seq).block_ids();
  return {ids.begin(), ids.end()};
}

BlockManager::Start run(BlockManager& manager, const Tokens& tokens, const ExtraKeys& keys = {}) {
  const auto start = manager.start(tokens, keys);
  REQUIRE(start.has_value());
  manager.publish(start->seq, tokens);
  manager.check();
  return *start;
}

/// What a request with these tokens finds. It takes the blocks it needs, and gives all back.
int cached(BlockManager& manager, const Tokens& tokens, const ExtraKeys& keys = {}) {
  const auto start = manager.start(tokens, keys);
  REQUIRE(start.has_value());
  manager.free_sequence(start->seq);
  return start->num_cached_tokens;
}

}  // namespace

TEST_CASE("the queue keeps its order, and a block leaves from anywhere") {
  std::vector<KvBlock> blocks(5);
  for (int i = 0; i < 5; ++i) blocks[static_cast<size_t>(i)].id = i;
  FreeBlockQueue queue;
  const auto ids = [&] {
    Ids all;
    for (const KvBlock* block : queue.all()) all.push_back(block->id);
    return all;
  };
  for (KvBlock& block : blocks) queue.append(block);
  queue.remove(blocks[2]);
  CHECK(ids() == Ids{0, 1, 3, 4});
  queue.remove(blocks[0]);
  queue.remove(blocks[4]);
  CHECK(ids() == Ids{1, 3});
  queue.prepend(blocks[4]);
  queue.append(blocks[0]);
  CHECK(ids() == Ids{4, 1, 3, 0});
  CHECK(queue.popleft().id == 4);
  CHECK(queue.size() == 3);
  CHECK_THROWS_WITH_AS(queue.remove(blocks[4]), doctest::Contains("block 4 is not free"),
                       std::logic_error);
  CHECK_THROWS_WITH_AS(queue.append(blocks[1]), doctest::Contains("block 1 is free already"),
                       std::logic_error);
  CHECK_THROWS_AS(queue.prepend(blocks[1]), std::logic_error);
  CHECK(ids() == Ids{1, 3, 0});
  while (!queue.empty()) queue.popleft();
  CHECK_THROWS_WITH_AS(queue.popleft(), doctest::Contains("no free block"), std::logic_error);
  queue.append(blocks[3]);
  CHECK(ids() == Ids{3});
}

// vLLM #9972: why its free queue is a linked list of its own and no deque.
TEST_CASE("the queue does what a deque does, in ten thousand random steps") {
  std::vector<KvBlock> blocks(20);
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i].id = static_cast<int32_t>(i);
  FreeBlockQueue queue;
  Ids model;
  std::mt19937 rng(3);
  for (int step = 0; step < 10'000; ++step) {
    KvBlock& block = blocks[rng() % blocks.size()];
    const auto place = std::find(model.begin(), model.end(), block.id);
    if (place != model.end()) {
      queue.remove(block);
      model.erase(place);
    } else if (rng() % 2 == 0) {
      queue.append(block);
      model.push_back(block.id);
    } else {
      queue.prepend(block);
      model.insert(model.begin(), block.id);
    }
    Ids all;
    for (const KvBlock* b : queue.all()) all.push_back(b->id);
    REQUIRE(all == model);
    REQUIRE(queue.size() == model.size());
  }
}

TEST_CASE("the null block is never allocated, freed, touched or cached") {
  BlockPool pool(3, 4);
  CHECK(pool.num_blocks() == 3);
  CHECK(pool.num_free() == 3);
  const Ids all = *pool.get_new_blocks(3);
  CHECK(all == Ids{1, 2, 3});
  CHECK_FALSE(pool.get_new_blocks(1).has_value());
  Ids one{-5};
  CHECK_FALSE(pool.get_new_blocks(std::span(one)));
  CHECK(one == Ids{-5});
  const Ids null{BlockPool::kNullBlock};
  CHECK_THROWS_WITH_AS(pool.free_blocks(null), doctest::Contains("null block"), std::logic_error);
  CHECK_THROWS_WITH_AS(pool.touch(null), doctest::Contains("null block"), std::logic_error);
  CHECK_THROWS_AS(pool.cache_full_block(0, 1, {}, range(0, 4), {}), std::logic_error);
  pool.check();
}

TEST_CASE("wrong use is named and changes nothing") {
  BlockPool pool(3, 4);
  const Ids two = *pool.get_new_blocks(2);
  CHECK_THROWS_WITH_AS(pool.free_blocks(Ids{1, 3}), doctest::Contains("block 3"), std::logic_error);
  CHECK(pool.block(1).ref_cnt == 1);
  CHECK_THROWS_WITH_AS(pool.free_blocks(Ids{2, 2}), doctest::Contains("block 2"), std::logic_error);
  CHECK(pool.block(2).ref_cnt == 1);
  CHECK_THROWS_WITH_AS(pool.touch(Ids{1, 9}), doctest::Contains("no block 9"), std::out_of_range);
  CHECK(pool.block(1).ref_cnt == 1);
  CHECK_THROWS_AS(pool.get_new_blocks(-1), std::invalid_argument);
  CHECK_THROWS_AS(pool.cache_full_block(3, 1, {}, range(0, 4), {}), std::logic_error);
  CHECK_THROWS_AS(pool.cache_full_block(1, 1, {}, range(0, 3), {}), std::invalid_argument);
  pool.cache_full_block(1, 1, {}, range(0, 4), {});
  CHECK_THROWS_WITH_AS(pool.cache_full_block(1, 1, {}, range(0, 4), {}),
                       doctest::Contains("cached already"), std::logic_error);
  CHECK_THROWS_AS(BlockPool(0, 4), std::invalid_argument);
  pool.check();
}

TEST_CASE("a freed block is revived from the middle of the queue with all it holds") {
  BlockManager manager(8, 4);
  const auto a = run(manager, range(0, 13));  // blocks 1 2 3 4
  manager.free_sequence(a.seq);
  CHECK(queue_of(manager.pool()) == Ids{5, 6, 7, 8, 4, 3, 2, 1});
  const auto b = run(manager, range(0, 9));  // revives 1 and 2; takes 5
  CHECK(b.num_cached_tokens == 8);
  CHECK(table_of(manager, b.seq) == Ids{1, 2, 5});
  CHECK(queue_of(manager.pool()) == Ids{6, 7, 8, 4, 3});
  CHECK(std::ranges::equal(manager.pool().tokens(1), range(0, 4)));
  CHECK(manager.pool().metrics().num_revived == 2);
  CHECK(manager.pool().metrics().num_evicted == 0);
}

TEST_CASE("the victim is the least recently used block, and of one sequence the tail") {
  BlockManager manager(6, 4);
  manager.pool().record_events(true);
  const auto a = run(manager, range(0, 8));      // 1 2
  const auto b = run(manager, range(100, 108));  // 3 4
  const auto c = run(manager, range(200, 208));  // 5 6
  manager.free_sequence(b.seq);
  manager.free_sequence(a.seq);
  manager.free_sequence(c.seq);
  CHECK(queue_of(manager.pool()) == Ids{4, 3, 2, 1, 6, 5});
  CHECK(cached(manager, range(100, 109)) == 8);  // used again: b's go to the end
  CHECK(queue_of(manager.pool()) == Ids{1, 6, 5, 2, 4, 3});
  manager.pool().take_events();
  const auto d = run(manager, range(300, 304));
  CHECK(table_of(manager, d.seq) == Ids{1});
  const auto events = manager.pool().take_events();
  REQUIRE(events.size() == 2);
  CHECK(events[0].kind == CacheEvent::Kind::kRemoved);
  CHECK(events[0].block_id == 1);
  CHECK(events[1].kind == CacheEvent::Kind::kStored);
}

TEST_CASE("a block that nobody can find goes first if the order says so") {
  for (const FreeOrder order : {FreeOrder::kAppend, FreeOrder::kUnhashedFirst}) {
    BlockManager manager(6, 4, order);
    const auto a = run(manager, range(0, 10));  // 1 2 are full, 3 is not
    manager.free_sequence(a.seq);
    const bool append = order == FreeOrder::kAppend;
    CHECK(queue_of(manager.pool()) == (append ? Ids{4, 5, 6, 3, 2, 1} : Ids{3, 4, 5, 6, 2, 1}));
    manager.check();
  }
}

// kvcached #362: an evicted block kept the hash of what it had held.
TEST_CASE("what is taken for something else is not found under its old name") {
  BlockManager manager(2, 4);
  manager.free_sequence(run(manager, range(0, 4)).seq);
  manager.free_sequence(run(manager, range(50, 58)).seq);
  CHECK(manager.pool().num_cached() == 2);
  CHECK(cached(manager, range(0, 5)) == 0);
}

TEST_CASE("several blocks with one content: when one is evicted the other is found") {
  BlockManager manager(6, 4);
  const auto a = manager.start(range(0, 5)), b = manager.start(range(0, 5));
  manager.publish(a->seq, range(0, 5));
  manager.publish(b->seq, range(0, 5));
  CHECK(manager.pool().num_cached() == 2);
  CHECK(manager.pool().prefix(1) == manager.pool().prefix(3));
  manager.free_sequence(a->seq);
  run(manager, range(60, 76));  // four blocks: a's two and the two that were left
  CHECK_FALSE(manager.pool().prefix(1) == manager.pool().prefix(3));
  manager.free_sequence(b->seq);
  CHECK(manager.start(range(0, 5))->num_cached_tokens == 4);
  manager.check();
}

// vLLM #42948: blocks that a request could have found were given to that request as empty ones.
TEST_CASE("a start that does not fit changes nothing: no reference, no order, no event") {
  BlockManager manager(4, 4);
  manager.free_sequence(run(manager, range(0, 8)).seq);
  manager.free_sequence(run(manager, range(100, 104)).seq);
  const auto holder = run(manager, range(200, 204));
  manager.pool().record_events(true);
  const Ids before = queue_of(manager.pool());
  CHECK(before.size() == 3);
  // 8 tokens are cached in two free blocks; 8 more need two, and one is left beside them.
  CHECK_FALSE(manager.start(range(0, 16)).has_value());
  CHECK(queue_of(manager.pool()) == before);
  CHECK(manager.pool().take_events().empty());
  CHECK(manager.sequences() == std::vector<int>{holder.seq});
  CHECK(manager.num_tokens_found() == 0);
  const auto fits = manager.start(range(0, 12));
  REQUIRE(fits.has_value());
  CHECK(fits->num_cached_tokens == 8);
  manager.check();
}

TEST_CASE("the last token is left, and partly filled blocks have no name") {
  for (const int n : {1, 3, 4, 5, 8, 9, 12, 13}) {
    CAPTURE(n);
    BlockManager manager(16, 4);
    run(manager, range(0, 14));
    CHECK(manager.pool().num_cached() == 3);
    CHECK(manager.start(range(0, n))->num_cached_tokens == std::min((n - 1) / 4 * 4, 12));
    manager.check();
  }
}

// vLLM #3264: prompts for two adapters shared K and V. #17045, CVE-2025-46570: salts, as the time
// to the first token tells what others have asked.
TEST_CASE("a salt, an adapter, a content id: the same key hits, another one misses") {
  const ExtraKeys none, salt{{ExtraKey::Kind::kSalt, "x"}}, other{{ExtraKey::Kind::kSalt, "y"}},
      adapter{{ExtraKey::Kind::kAdapter, "x"}}, content{{ExtraKey::Kind::kContent, "x"}};
  const std::vector<ExtraKeys> all{none, salt, other, adapter, content};
  for (size_t i = 0; i < all.size(); ++i) {
    BlockManager manager(32, 4);
    run(manager, range(0, 9), all[i]);
    for (size_t j = 0; j < all.size(); ++j) {
      CAPTURE(i);
      CAPTURE(j);
      CHECK(cached(manager, range(0, 9), all[j]) == (i == j ? 8 : 0));
    }
  }
}

// vLLM #44701: an adapter's name and a salt of the same text gave the same key.
TEST_CASE("no key's text can imitate another key, a kind, or tokens") {
  const auto hash = [](const ExtraKeys& keys) {
    return lesson07::hash_block(7, range(0, 4), keys);
  };
  const auto salt = [](const std::string& value) { return ExtraKey{ExtraKey::Kind::kSalt, value}; };
  CHECK(hash({salt("ab"), salt("c")}) != hash({salt("a"), salt("bc")}));
  CHECK(hash({salt("ab")}) != hash({salt("a"), salt("b")}));
  CHECK(hash({salt("")}) != hash({}));
  CHECK(hash({salt(std::string("a\0", 2))}) != hash({salt("a")}));
  CHECK(hash({salt("x")}) != hash({ExtraKey{ExtraKey::Kind::kAdapter, "x"}}));
  // A value that spells out the end of itself and the beginning of another key.
  const std::string kind_of_salt{static_cast<char>(ExtraKey::Kind::kSalt), 0, 0, 0, 0, 0, 0, 0};
  CHECK(hash({salt("a" + kind_of_salt + "b")}) != hash({salt("a"), salt("b")}));
  CHECK(hash({}) == lesson06::xxh64_block(7, range(0, 4)));
  // Also under a hash of no bits at all: then the comparison alone decides.
  BlockManager manager(32, 4, FreeOrder::kAppend, 0);
  run(manager, range(0, 9), {salt("ab"), salt("c")});
  CHECK(cached(manager, range(0, 9), {salt("a"), salt("bc")}) == 0);
  CHECK(cached(manager, range(0, 9), {salt("ab"), salt("c")}) == 8);
}

// vLLM #12284: a reset is possible only when all blocks are free, and says whether it was.
TEST_CASE("the cache is reset only when nobody uses a block") {
  BlockManager manager(8, 4);
  manager.pool().record_events(true);
  const auto a = run(manager, range(0, 9));
  CHECK_FALSE(manager.reset_prefix_cache());
  CHECK(manager.pool().num_cached() == 2);
  manager.free_sequence(a.seq);
  CHECK(manager.reset_prefix_cache());
  CHECK(manager.pool().num_cached() == 0);
  CHECK(manager.pool().take_events().back().kind == CacheEvent::Kind::kCleared);
  CHECK(cached(manager, range(0, 9)) == 0);
  manager.check();
}

TEST_CASE("events tell a reader just what is cached") {
  BlockManager manager(6, 2);
  manager.pool().record_events(true);
  std::mt19937 rng(5);
  std::vector<std::optional<uint64_t>> mirror(7);
  for (int step = 0; step < 500; ++step) {
    const Tokens tokens{static_cast<int32_t>(rng() % 3), static_cast<int32_t>(rng() % 3),
                        static_cast<int32_t>(rng() % 3), 1, 2};
    manager.free_sequence(run(manager, tokens).seq);
    for (const CacheEvent& event : manager.pool().take_events()) {
      auto& seen = mirror.at(static_cast<size_t>(event.block_id));
      if (event.kind == CacheEvent::Kind::kStored) {
        REQUIRE_FALSE(seen.has_value());
        seen = event.hash;
      } else {
        REQUIRE(seen == event.hash);
        seen.reset();
      }
    }
    for (int32_t id = 1; id <= 6; ++id) {
      const auto& block = manager.pool().block(id);
      REQUIRE(mirror[static_cast<size_t>(id)].has_value() == block.is_cached);
    }
  }
}

TEST_CASE("metrics: how long blocks stayed, and how many went unused") {
  BlockManager manager(2, 4);
  manager.free_sequence(run(manager, range(0, 8)).seq);    // stored 2
  manager.free_sequence(run(manager, range(0, 5)).seq);    // one hit; evicts the second
  manager.free_sequence(run(manager, range(50, 58)).seq);  // evicts the first
  const auto& m = manager.pool().metrics();
  CHECK(m.num_stored == 4);
  CHECK(m.num_evicted == 2);
  CHECK(m.num_evicted_unused == 1);
  CHECK(m.num_revived == 1);
  CHECK(m.sum_residency > m.sum_idle);
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
