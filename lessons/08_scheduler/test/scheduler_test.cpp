// Tests of lesson 08's bookkeeping: slots, queues, budgets, preemption.

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "lessons/06_prefix_hashing/test/requests.h"
#include "scheduler.h"

namespace {

using lesson06_test::range;
using lesson06_test::Tokens;
using lesson07::BlockPool;
using lesson08::Chunk;
using lesson08::KvCacheManager;
using lesson08::Order;
using lesson08::RequestState;
using lesson08::Scheduler;
using Ids = std::vector<int64_t>;

/// A pass: scheduled, written, and one token more for each request that has its logits.
std::vector<Chunk> step(Scheduler& scheduler) {
  const std::vector<Chunk> chunks = scheduler.schedule();
  scheduler.check();
  scheduler.update(chunks);
  for (const Chunk& chunk : chunks) {
    if (scheduler.wants_token(chunk.id)) scheduler.add_token(chunk.id, 7);
  }
  scheduler.check();
  return chunks;
}

Ids running(const Scheduler& scheduler) { return scheduler.running(); }
Ids waiting(const Scheduler& scheduler) { return scheduler.waiting(); }

}  // namespace

TEST_CASE("a prompt runs, then one token of each pass") {
  BlockPool pool(8, 4);
  KvCacheManager manager(pool);
  Scheduler scheduler(manager, {});
  scheduler.submit(1, range(0, 6), 10);
  CHECK(scheduler.request(1).state == RequestState::kWaiting);
  CHECK(step(scheduler) == std::vector<Chunk>{{1, 6}});
  CHECK(step(scheduler) == std::vector<Chunk>{{1, 1}});
  CHECK(scheduler.request(1).num_computed == 7);
  CHECK(manager.table(1).num_tokens() == 7);
  CHECK(scheduler.finish(1));
  CHECK_FALSE(scheduler.finish(1));
  CHECK(scheduler.idle());
  CHECK(scheduler.schedule().empty());
  CHECK(pool.num_used() == 0);
}

TEST_CASE("the token budget: decodes first, then prompts in chunks") {
  BlockPool pool(64, 4);
  KvCacheManager manager(pool);
  Scheduler scheduler(manager, {.max_tokens_per_pass = 10, .max_chunk = 8});
  scheduler.submit(1, range(0, 5), 10);
  scheduler.submit(2, range(100, 120), 10);
  CHECK(step(scheduler) == std::vector<Chunk>{{1, 5}, {2, 5}});
  CHECK(step(scheduler) == std::vector<Chunk>{{1, 1}, {2, 8}});
  CHECK(step(scheduler) == std::vector<Chunk>{{1, 1}, {2, 7}});
  CHECK(step(scheduler) == std::vector<Chunk>{{1, 1}, {2, 1}});
}

TEST_CASE("at most max_running requests hold blocks") {
  BlockPool pool(64, 4);
  KvCacheManager manager(pool);
  Scheduler scheduler(manager, {.max_running = 2});
  for (int id = 0; id < 4; ++id) scheduler.submit(id, range(0, 3), 5);
  step(scheduler);
  CHECK(running(scheduler) == Ids{0, 1});
  CHECK(waiting(scheduler) == Ids{2, 3});
  scheduler.finish(0);
  step(scheduler);
  CHECK(running(scheduler) == Ids{1, 2});
}

// vLLM #35541, #39734: 63 blocks of 49 were waited for, for ever, and so was everybody after it.
TEST_CASE("a request that can never fit is refused when it is submitted, with both numbers") {
  BlockPool pool(49, 16);
  KvCacheManager manager(pool);
  Scheduler scheduler(manager, {});
  CHECK_THROWS_WITH_AS(scheduler.submit(7, range(0, 900), 101),
                       doctest::Contains("request 7 needs 63 blocks, the pool has 49"),
                       kv::UserError);
  CHECK_NOTHROW(scheduler.submit(8, range(0, 700), 85));  // 784 slots: exactly 49 blocks
  CHECK_THROWS_WITH_AS(scheduler.submit(8, range(0, 3), 1), doctest::Contains("request 8 already"),
                       kv::UserError);
  CHECK_THROWS_AS(scheduler.submit(9, {}, 1), kv::UserError);
  CHECK_THROWS_AS(scheduler.submit(9, range(0, 3), 0), kv::UserError);
  CHECK_THROWS_AS(Scheduler(manager, {.max_tokens_per_pass = 0}), kv::UserError);
  scheduler.check();
}

// Overtaken while it waited, it would lose what it had computed.
TEST_CASE("the last one is preempted, waits at the front, and finds its own blocks again") {
  BlockPool pool(4, 4);
  KvCacheManager manager(pool);
  Scheduler scheduler(manager, {});
  scheduler.submit(1, range(0, 8), 8);
  scheduler.submit(2, range(100, 107), 8);
  scheduler.submit(3, range(200, 203), 2);
  CHECK(step(scheduler) == std::vector<Chunk>{{1, 8}, {2, 7}});  // all four blocks
  CHECK(step(scheduler) == std::vector<Chunk>{{1, 1}});          // a third block for 1: 2 goes
  CHECK(waiting(scheduler) == Ids{2, 3});
  CHECK(scheduler.request(2).num_preemptions == 1);
  CHECK(scheduler.request(2).num_computed == 0);
  CHECK(scheduler.request(2).tokens.size() == 8);  // what it has generated is kept
  CHECK(step(scheduler) == std::vector<Chunk>{{1, 1}});
  scheduler.finish(1);
  CHECK(step(scheduler) == std::vector<Chunk>{{2, 4}, {3, 3}});
  CHECK(scheduler.request(2).num_cached == 4);  // one of its blocks was still there
}

// vLLM #41951: by priority, a preempted request was overtaken by others of its own priority.
TEST_CASE("by priority, a preempted request waits before its equals and after its betters") {
  BlockPool pool(4, 4);
  KvCacheManager manager(pool);
  Scheduler scheduler(manager, {.order = Order::kPriority});
  scheduler.submit(1, range(0, 8), 8, 0);
  scheduler.submit(2, range(100, 107), 8, 1);
  scheduler.submit(3, range(200, 203), 2, 1);
  CHECK(step(scheduler) == std::vector<Chunk>{{1, 8}, {2, 7}});
  CHECK(step(scheduler) == std::vector<Chunk>{{1, 1}});  // 2 goes
  CHECK(waiting(scheduler) == Ids{2, 3});
  scheduler.submit(4, range(300, 303), 2, 0);
  CHECK(waiting(scheduler) == Ids{4, 2, 3});
  scheduler.check();
}

// vLLM #23347: a request was scheduled and then preempted in one step, and was in both lists.
TEST_CASE("a victim that has its chunk already leaves the batch once, and its budget is free") {
  BlockPool pool(4, 4);
  KvCacheManager manager(pool);
  Scheduler scheduler(manager, {.order = Order::kPriority});
  scheduler.submit(1, range(0, 6), 8, 5);  // less important, and first in the running queue
  CHECK(step(scheduler) == std::vector<Chunk>{{1, 6}});
  scheduler.submit(2, range(100, 108), 8, 0);
  CHECK(step(scheduler) == std::vector<Chunk>{{1, 1}, {2, 8}});
  CHECK(pool.num_free() == 0);
  // 1 takes its chunk; 2 needs a third block, and 1 is the victim.
  const std::vector<Chunk> chunks = step(scheduler);
  CHECK(chunks == std::vector<Chunk>{{2, 1}});
  CHECK(scheduler.request(1).state == RequestState::kWaiting);
  CHECK(scheduler.request(1).num_preemptions == 1);
}

TEST_CASE("a victim's tokens go back to the budget, and those after it get them") {
  BlockPool pool(4, 4);
  KvCacheManager manager(pool);
  Scheduler scheduler(manager, {.max_tokens_per_pass = 4, .order = Order::kPriority});
  scheduler.submit(1, range(0, 3), 8, 5);
  CHECK(step(scheduler) == std::vector<Chunk>{{1, 3}});
  scheduler.submit(2, range(100, 104), 8, 0);
  CHECK(step(scheduler) == std::vector<Chunk>{{1, 1}, {2, 3}});
  scheduler.submit(3, range(200, 212), 4, 1);
  CHECK(step(scheduler) == std::vector<Chunk>{{1, 1}, {2, 1}, {3, 2}});
  CHECK(pool.num_free() == 0);
  // 1 takes one of 4 tokens, and gives it back: 2 takes one, and three are left.
  CHECK(step(scheduler) == std::vector<Chunk>{{2, 1}, {3, 3}});
}

TEST_CASE("priority: whoever is more important starts first") {
  BlockPool pool(64, 4);
  KvCacheManager manager(pool);
  Scheduler scheduler(manager, {.max_running = 1, .order = Order::kPriority});
  scheduler.submit(1, range(0, 3), 5, 2);
  scheduler.submit(2, range(0, 3), 5, 1);
  scheduler.submit(3, range(0, 3), 5, 2);
  scheduler.submit(4, range(0, 3), 5, 0);
  CHECK(waiting(scheduler) == Ids{4, 2, 1, 3});
}

TEST_CASE("a pool of one block serves one after the other") {
  BlockPool pool(1, 8);
  KvCacheManager manager(pool);
  Scheduler scheduler(manager, {});
  for (int id = 0; id < 5; ++id) scheduler.submit(id, range(id, id + 4), 4);
  int passes = 0;
  std::vector<int> made(5, 0);
  while (!scheduler.idle() && ++passes < 1000) {
    const auto chunks = scheduler.schedule();
    scheduler.update(chunks);
    for (const Chunk& chunk : chunks) {
      if (!scheduler.wants_token(chunk.id)) continue;
      scheduler.add_token(chunk.id, 1);
      if (++made[static_cast<size_t>(chunk.id)] == 4) scheduler.finish(chunk.id);
    }
    scheduler.check();
  }
  CHECK(passes == 20);
  CHECK(scheduler.num_preemptions() == 0);
}

TEST_CASE("everybody grows into a pool that holds one: progress, and bounded preemptions") {
  BlockPool pool(4, 2);
  KvCacheManager manager(pool);
  Scheduler scheduler(manager, {});
  constexpr int kRequests = 6;
  for (int id = 0; id < kRequests; ++id) scheduler.submit(id, range(10 * id, 10 * id + 2), 6);
  std::vector<int> made(kRequests, 0);
  int passes = 0;
  while (!scheduler.idle() && ++passes < 1000) {
    const auto chunks = scheduler.schedule();
    scheduler.update(chunks);
    for (const Chunk& chunk : chunks) {
      if (!scheduler.wants_token(chunk.id)) continue;
      scheduler.add_token(chunk.id, 1);
      if (++made[static_cast<size_t>(chunk.id)] == 6) scheduler.finish(chunk.id);
    }
    scheduler.check();
  }
  CHECK(scheduler.idle());
  CHECK(passes < 100);
  CHECK(scheduler.num_preemptions() > 0);
  CHECK(scheduler.num_preemptions() < 5 * kRequests);
}

TEST_CASE("cancelled in every state: waiting, running, in a chunk, preempted") {
  BlockPool pool(4, 4);
  KvCacheManager manager(pool);
  Scheduler scheduler(manager, {});
  scheduler.submit(1, range(0, 8), 8);
  scheduler.submit(2, range(100, 107), 8);
  scheduler.submit(3, range(200, 203), 2);
  CHECK(scheduler.finish(3));  // waiting
  step(scheduler);
  step(scheduler);  // 2 is preempted
  CHECK(scheduler.finish(2));
  const std::vector<Chunk> chunks = scheduler.schedule();
  CHECK(scheduler.finish(1));  // while its pass runs
  scheduler.update(chunks);
  scheduler.check();
  CHECK(scheduler.idle());
  CHECK(pool.num_used() == 0);
}

TEST_CASE("a number may be used again while the cancelled request's pass runs") {
  BlockPool pool(4, 4);
  KvCacheManager manager(pool);
  Scheduler scheduler(manager, {});
  scheduler.submit(1, range(0, 8), 4);
  const std::vector<Chunk> chunks = scheduler.schedule();
  CHECK(scheduler.finish(1));
  scheduler.submit(1, range(50, 53), 4);
  scheduler.update(chunks);  // is about the old one
  CHECK(scheduler.request(1).num_computed == 0);
  scheduler.check();
  step(scheduler);
  CHECK(scheduler.request(1).num_computed == 3);
  CHECK(pool.num_cached() == 0);
}

// vLLM #7822: marked as computed when scheduled, blocks would be read before they are written.
TEST_CASE("requests that start together do not find each other, the next one finds them") {
  BlockPool pool(16, 4);
  KvCacheManager manager(pool);
  Scheduler scheduler(manager, {});
  scheduler.submit(1, range(0, 9), 4);
  scheduler.submit(2, range(0, 9), 4);
  CHECK(step(scheduler) == std::vector<Chunk>{{1, 9}, {2, 9}});
  scheduler.submit(3, range(0, 9), 4);
  CHECK(step(scheduler) == std::vector<Chunk>{{1, 1}, {2, 1}, {3, 1}});
  CHECK(scheduler.request(3).num_cached == 8);
}

TEST_CASE("a request that ends before its pass leaves nothing to be found") {
  BlockPool pool(16, 4);
  KvCacheManager manager(pool);
  Scheduler scheduler(manager, {});
  scheduler.submit(1, range(0, 9), 4);
  const std::vector<Chunk> chunks = scheduler.schedule();
  scheduler.finish(1);
  scheduler.update(chunks);
  CHECK(pool.num_cached() == 0);
  CHECK(manager.get_computed_blocks(range(0, 9)).num_tokens == 0);
}

TEST_CASE("only what is computed can be found, wherever the chunks end") {
  BlockPool pool(16, 4);
  KvCacheManager manager(pool);
  Scheduler scheduler(manager, {.max_tokens_per_pass = 3});
  scheduler.submit(1, range(0, 13), 4);
  int computed = 0;
  for (int pass = 0; pass < 4; ++pass) {
    step(scheduler);
    computed += 3;
    CHECK(pool.num_cached() == computed / 4);
  }
}

TEST_CASE("without caching nothing is found") {
  BlockPool pool(16, 4);
  KvCacheManager manager(pool, {.caching = false});
  CHECK(manager.allocate_slots(1, 9));
  manager.cache_blocks(1, range(0, 9), 9);
  manager.free(1);
  CHECK(manager.get_computed_blocks(range(0, 9)).num_tokens == 0);
  CHECK(pool.num_cached() == 0);
}

TEST_CASE("unknown requests are named") {
  BlockPool pool(4, 4);
  KvCacheManager manager(pool);
  Scheduler scheduler(manager, {});
  CHECK_THROWS_WITH_AS(manager.free(5), doctest::Contains("request 5"), std::out_of_range);
  CHECK_THROWS_WITH_AS(scheduler.request(5), doctest::Contains("no request 5"), std::out_of_range);
  scheduler.submit(1, range(0, 3), 2);
  CHECK_THROWS_WITH_AS(scheduler.add_token(1, 3), doctest::Contains("no logits"), std::logic_error);
  CHECK(manager.allocate_slots(9, 2));
  CHECK_THROWS_AS(manager.cache_blocks(9, range(0, 9), 9), std::invalid_argument);
}

TEST_CASE("a running request with nothing to compute is skipped") {
  BlockPool pool(16, 4);
  KvCacheManager manager(pool);
  Scheduler scheduler(manager, {});
  scheduler.submit(1, range(0, 5), 4);
  scheduler.update(scheduler.schedule());
  scheduler.submit(2, range(9, 12), 4);
  // 1 has logits, and its token is still to come.
  CHECK(scheduler.schedule() == std::vector<Chunk>{{2, 3}});
  scheduler.update(std::vector<Chunk>{{2, 3}});
  scheduler.add_token(1, 7);
  CHECK(scheduler.schedule() == std::vector<Chunk>{{1, 1}});
}
