// Tests of lesson 08's bookkeeping: passes, budgets, preemption, cancels.

#include <doctest/doctest.h>

#include <stdexcept>

#include "common/error.h"
#include "lessons/06_prefix_hashing/test/requests.h"
#include "pooled_scheduler.h"
#include "scheduler.h"

namespace {

using lesson06_test::found;
using lesson06_test::range;
using lesson08::Order;
using lesson08_test::Chunks;
using lesson08_test::Ids;
using lesson08_test::PooledScheduler;

}  // namespace

TEST_CASE("a prompt runs, then one token of each pass") {
  PooledScheduler s(8, 4);
  s.submit(1, range(0, 6), 10);
  CHECK(s.waiting() == Ids{1});
  CHECK(s.step() == Chunks{{1, 6}});
  CHECK(s.step() == Chunks{{1, 1}});
  CHECK(s.request(1).num_computed == 7);
  CHECK(s.books.table(1).num_tokens() == 7);
  CHECK(s.finish(1));
  CHECK_FALSE(s.finish(1));
  CHECK(s.idle());
  CHECK(s.schedule().chunks.empty());
  CHECK(s.pool.num_used() == 0);
}

TEST_CASE("the token budget: requests as they started, prompts in chunks") {
  PooledScheduler s(64, 4, {.max_tokens_per_pass = 10, .max_chunk = 8});
  s.submit(1, range(0, 5), 10);
  s.submit(2, range(100, 120), 10);
  CHECK(s.step() == Chunks{{1, 5}, {2, 5}});
  CHECK(s.step() == Chunks{{1, 1}, {2, 8}});
  CHECK(s.step() == Chunks{{1, 1}, {2, 7}});
  CHECK(s.step() == Chunks{{1, 1}, {2, 1}});
}

// vLLM #35541, #39734: a request waited forever for 63 blocks of 49, and so did every request
// after it.
TEST_CASE("a request that can never fit is refused when it is submitted, with both numbers") {
  PooledScheduler s(49, 16);
  CHECK_THROWS_WITH_AS(s.submit(7, range(0, 900), 101),
                       doctest::Contains("request 7 needs 63 blocks, the pool has 49"),
                       kv::UserError);
  CHECK_NOTHROW(s.submit(8, range(0, 700), 85));  // 784 slots: exactly 49 blocks
  CHECK_THROWS_WITH_AS(s.submit(8, range(0, 3), 1), doctest::Contains("request 8 already"),
                       kv::UserError);
  CHECK_THROWS_AS(s.submit(9, {}, 1), kv::UserError);
  CHECK_THROWS_AS(s.submit(9, range(0, 3), 0), kv::UserError);
  CHECK_THROWS_AS(PooledScheduler(1, 1, {.max_tokens_per_pass = 0}), kv::UserError);
  s.check();
  PooledScheduler whole(64, 4, {.max_tokens_per_pass = 10, .chunked_prefill = false});
  CHECK_THROWS_WITH_AS(whole.submit(4, range(0, 9), 3),
                       doctest::Contains("may run 11 tokens in one pass, the budget is 10"),
                       kv::UserError);
  CHECK_THROWS_AS(PooledScheduler(4, 4, {.max_chunk = 2, .chunked_prefill = false}), kv::UserError);
}

TEST_CASE("the gate counts all known tokens, and what is found in use costs nothing") {
  PooledScheduler s(6, 4);
  s.submit(1, range(0, 12), 12);
  CHECK(s.step() == Chunks{{1, 12}});
  s.submit(2, range(0, 20), 4);  // three of its five blocks are there and in use
  CHECK(s.step() == Chunks{{1, 1}, {2, 8}});
  for (int i = 0; i < 4; ++i) s.step();  // both grow into the last block: 2 gives way
  CHECK(s.waiting() == Ids{2});
  CHECK(s.request(2).num_preemptions == 1);
  CHECK(s.request(2).tokens.size() > 20);
  s.step();
  CHECK(s.waiting() == Ids{2});  // its prompt would fit, but not with what it has generated
}

// If others overtook it while it waits, they would evict what it has computed.
TEST_CASE("the last one is preempted, waits at the front, and finds its own blocks again") {
  PooledScheduler s(4, 4);
  s.submit(1, range(0, 8), 8);
  s.submit(2, range(100, 107), 8);
  s.submit(3, range(200, 203), 2);
  CHECK(s.step() == Chunks{{1, 8}, {2, 7}});  // all four blocks
  CHECK(s.step() == Chunks{{1, 1}});          // a third block for 1: 2 goes
  CHECK(s.waiting() == Ids{2, 3});
  CHECK(s.request(2).num_preemptions == 1);
  CHECK(s.request(2).num_computed == 0);
  CHECK(s.request(2).tokens.size() == 8);  // what it has generated is kept
  CHECK(s.step() == Chunks{{1, 1}});
  s.finish(1);
  CHECK(s.step() == Chunks{{2, 4}, {3, 3}});
  CHECK(s.request(2).num_cached == 4);  // one of its blocks was still there
}

// vLLM #23347: a request was scheduled and then preempted in one step, and was in both lists.
TEST_CASE("a victim that has its chunk already leaves the batch once, and its budget is free") {
  PooledScheduler s(4, 4, {.order = Order::kPriority});
  s.submit(1, range(0, 6), 8, {.priority = 5});  // less important, and first in the running queue
  CHECK(s.step() == Chunks{{1, 6}});
  s.submit(2, range(100, 108), 8);
  CHECK(s.step() == Chunks{{1, 1}, {2, 8}});
  CHECK(s.pool.num_free() == 0);
  // By priority, 2 is the more important one. 1 takes its chunk; 2 needs a third block, and 1 is
  // the victim.
  CHECK(s.step() == Chunks{{2, 1}});
  CHECK(s.waiting() == Ids{1});
  CHECK(s.request(1).num_preemptions == 1);
}

TEST_CASE("a victim's tokens go back to the budget, and those after it get them") {
  PooledScheduler s(
      4, 4, {.max_tokens_per_pass = 4, .full_sequence_must_fit = false, .order = Order::kPriority});
  s.submit(1, range(0, 3), 8, {.priority = 5});
  CHECK(s.step() == Chunks{{1, 3}});
  s.submit(2, range(100, 104), 8);
  CHECK(s.step() == Chunks{{1, 1}, {2, 3}});
  s.submit(3, range(200, 212), 4, {.priority = 1});
  CHECK(s.step() == Chunks{{1, 1}, {2, 1}, {3, 2}});
  CHECK(s.pool.num_free() == 0);
  // 1 takes one of 4 tokens, and gives it back: 2 takes one, and three are left.
  CHECK(s.step() == Chunks{{2, 1}, {3, 3}});

  PooledScheduler cut(
      3, 4, {.max_tokens_per_pass = 4, .full_sequence_must_fit = false, .order = Order::kPriority});
  cut.submit(1, range(0, 3), 8, {.priority = 5});
  CHECK(cut.step() == Chunks{{1, 3}});
  cut.submit(2, range(100, 112), 1);
  CHECK(cut.step() == Chunks{{1, 1}, {2, 3}});
  CHECK(cut.step() == Chunks{{2, 3}});  // the same chunk, though 1 has given a token back
}

TEST_CASE("by priority, a request that has to give way itself ends the pass's running ones") {
  PooledScheduler s(4, 4, {.order = Order::kPriority});
  s.submit(1, range(0, 3), 8, {.priority = 5});
  CHECK(s.step() == Chunks{{1, 3}});
  s.submit(2, range(100, 112), 4);
  CHECK(s.step() == Chunks{{1, 1}, {2, 12}});
  s.submit(3, range(200, 203), 4);  // has room when 1 is gone, and starts in a later pass
  INFO("1 gives way itself. Any number but 1 and 2 was read at the end of a queue");
  CHECK(s.step() == Chunks{});  // 1 needs a block and is the least important; 2 runs in the next
  CHECK(s.schedule().preempted.empty());
  CHECK(s.waiting() == Ids{3, 1});
}

TEST_CASE("a pass that has preempted starts no request, even where there is room") {
  PooledScheduler s(4, 4, {.order = Order::kPriority});
  s.submit(1, range(0, 8), 8, {.priority = 0});
  s.submit(2, range(100, 107), 8, {.priority = 2});
  CHECK(s.step() == Chunks{{1, 8}, {2, 7}});
  s.submit(3, range(200, 203), 2, {.priority = 1});
  CHECK(s.step() == Chunks{{1, 1}});  // 2 goes, and one of its blocks is left
  CHECK(s.pool.num_free() == 1);
  CHECK(s.waiting() == Ids{3, 2});
  CHECK(s.step() == Chunks{{1, 1}, {3, 3}});
}

TEST_CASE("a pass lists the requests that started, were resumed, and were preempted") {
  PooledScheduler s(4, 4);
  s.submit(1, range(0, 8), 8);
  s.submit(2, range(100, 107), 8);
  s.step();
  const lesson08::SchedulerOutput& output = s.schedule();
  CHECK(output == lesson08::SchedulerOutput{{{1, 1}}, {}, {}, {2}});
  s.finish(1);
  s.submit(3, range(200, 203), 8);
  CHECK(s.schedule() == lesson08::SchedulerOutput{{{2, 4}, {3, 3}}, {3}, {2}, {}});
}

TEST_CASE("a token that comes after its request was preempted is kept, and not computed twice") {
  PooledScheduler s(4, 4);
  s.submit(1, range(0, 8), 8);
  s.submit(2, range(100, 107), 8);
  s.update(s.schedule().chunks);
  s.add_token(1, 7);  // 2's is still to come
  CHECK(s.step() == Chunks{{1, 1}});
  CHECK(s.waiting() == Ids{2});
  s.finish(1);
  CHECK(s.step() == Chunks{});  // 2 would compute the same token once more
  CHECK(s.wants_token(2));
  s.add_token(2, 9);
  CHECK(s.request(2).tokens.back() == 9);
  CHECK(s.step() == Chunks{{2, 4}});
  CHECK(s.request(2).tokens.size() == 9);
}

TEST_CASE("a reset of the prefix cache preempts all that run, if it may") {
  PooledScheduler s(16, 4);
  s.submit(1, range(0, 9), 4);
  s.submit(2, range(100, 109), 4);
  s.step();
  CHECK_FALSE(s.reset_prefix_cache());
  CHECK(s.running() == Ids{1, 2});
  const Chunks chunks = s.schedule().chunks;
  CHECK(s.reset_prefix_cache(true));
  s.update(chunks);  // of a pass that counts no more
  CHECK(s.waiting() == Ids{1, 2});
  CHECK(s.request(1).num_computed == 0);
  CHECK_FALSE(s.wants_token(1));
  CHECK(s.pool.num_cached() == 0);
  CHECK(s.schedule() == lesson08::SchedulerOutput{{{1, 10}, {2, 10}}, {}, {1, 2}, {2, 1}});
  INFO("all of it runs, and nothing is found; the pass after it tells of no preemption");
  CHECK(s.schedule().preempted.empty());
}

TEST_CASE("a pool of one block serves one after the other") {
  PooledScheduler s(1, 8);
  for (int id = 0; id < 5; ++id) s.submit(id, range(id, id + 4), 4);
  CHECK(s.run_to_end(4) == 20);
  CHECK(s.num_preemptions() == 0);
}

TEST_CASE("all requests grow into a pool that holds one: progress, and bounded preemptions") {
  PooledScheduler s(4, 2);
  constexpr int kRequests = 6;
  for (int id = 0; id < kRequests; ++id) s.submit(id, range(10 * id, 10 * id + 2), 6);
  CHECK(s.run_to_end(6) < 100);
  CHECK(s.idle());
  CHECK(s.num_preemptions() > 0);
  CHECK(s.num_preemptions() < 5 * kRequests);
}

TEST_CASE("cancelled in every state: waiting, running, in a chunk, preempted") {
  PooledScheduler s(4, 4);
  s.submit(1, range(0, 8), 8);
  s.submit(2, range(100, 107), 8);
  s.submit(3, range(200, 203), 2);
  CHECK(s.finish(3));  // waiting
  s.step();
  s.step();  // 2 is preempted
  CHECK(s.finish(2));
  const Chunks chunks = s.schedule().chunks;
  CHECK(s.finish(1));  // while its pass runs
  s.update(chunks);
  s.check();
  CHECK(s.idle());
  CHECK(s.pool.num_used() == 0);
}

TEST_CASE("a number may be used again while the cancelled request's pass runs") {
  PooledScheduler s(4, 4);
  s.submit(1, range(0, 8), 4);
  const Chunks chunks = s.schedule().chunks;
  CHECK(s.finish(1));
  s.submit(1, range(50, 53), 4);
  s.update(chunks);  // is about the old one
  CHECK(s.request(1).num_computed == 0);
  s.check();
  s.step();
  CHECK(s.request(1).num_computed == 3);
  CHECK(s.pool.num_cached() == 0);
}

// vLLM #7822: marked as computed when scheduled, blocks would be read before they are written.
TEST_CASE("requests that start together do not find each other, the next one finds them") {
  PooledScheduler s(16, 4);
  s.submit(1, range(0, 9), 4);
  s.submit(2, range(0, 9), 4);
  CHECK(s.step() == Chunks{{1, 9}, {2, 9}});
  s.submit(3, range(0, 9), 4);
  CHECK(s.step() == Chunks{{1, 1}, {2, 1}, {3, 1}});
  CHECK(s.request(3).num_cached == 8);
}

TEST_CASE("a request that ends before its pass leaves nothing to be found") {
  PooledScheduler s(16, 4);
  s.submit(1, range(0, 9), 4);
  const Chunks chunks = s.schedule().chunks;
  s.finish(1);
  s.update(chunks);
  CHECK(s.pool.num_cached() == 0);
  CHECK(found(s.books, range(0, 9)) == 0);
}

TEST_CASE("only what is computed can be found, wherever the chunks end") {
  PooledScheduler s(16, 4, {.max_tokens_per_pass = 3});
  s.submit(1, range(0, 13), 4);
  for (int pass = 1; pass < 5; ++pass) {
    s.step();
    CHECK(s.pool.num_cached() == 3 * pass / 4);
  }
}

TEST_CASE("unknown requests are named, and a token that no request wants is refused") {
  PooledScheduler s(4, 4);
  CHECK_THROWS_WITH_AS(s.request(5), doctest::Contains("no request 5"), std::out_of_range);
  s.submit(1, range(0, 3), 2);
  CHECK_THROWS_WITH_AS(s.add_token(1, 3), doctest::Contains("no logits"), std::logic_error);
}

TEST_CASE("a running request with nothing to compute is skipped") {
  PooledScheduler s(16, 4, {.max_running = 2});
  s.submit(1, range(0, 5), 4);
  s.update(s.schedule().chunks);
  s.submit(2, range(9, 12), 4);
  s.submit(3, range(20, 23), 4);
  // 1 has logits, and its token is still to come. It runs, so 3 waits.
  CHECK(s.schedule().chunks == Chunks{{2, 3}});
  s.update(Chunks{{2, 3}});
  s.add_token(2, 8);
  CHECK(s.schedule().chunks == Chunks{{2, 1}});
  s.update(Chunks{{2, 1}});
  s.add_token(1, 7);
  CHECK(s.schedule().chunks == Chunks{{1, 1}});
}
