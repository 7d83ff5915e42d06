// Tests of chunks, of the waiting queue and of requests that start, and of what a preempted request
// loses and keeps.

#include <doctest/doctest.h>

#include <map>

#include "lessons/06_prefix_hashing/test/requests.h"
#include "pooled_scheduler.h"
#include "scheduler.h"

namespace {

using lesson06_test::range;
using lesson08::Order;
using lesson08::SchedulerOptions;
using namespace lesson08_test;

/// The next chunk of a request of 20 tokens.
int chunk(const SchedulerOptions& options, int num_computed, int budget, bool wants_token = false) {
  const PooledScheduler s(8, 4, options);
  lesson08::ScheduledRequest request;
  request.tokens = range(0, 20);
  request.wants_token = wants_token;
  return s.chunk_of(request, num_computed, budget);
}

}  // namespace

TEST_CASE("a chunk is what is not computed yet, within the budget and the longest chunk") {
  INFO("20 tokens are known");
  CHECK(chunk({}, 0, 100) == 20);
  CHECK(chunk({}, 19, 100) == 1);  // a decode
  CHECK(chunk({}, 12, 100) == 8);  // 12 came from the cache, or in an earlier chunk
  CHECK(chunk({}, 12, 5) == 5);
  CHECK(chunk({.max_chunk = 6}, 12, 100) == 6);
  CHECK(chunk({.max_chunk = 6}, 0, 10) == 6);
  CHECK(chunk({.max_chunk = 6}, 12, 5) == 5);
  CHECK(chunk({.max_chunk = 6}, 16, 100) == 4);
}

TEST_CASE("a request whose next token is still to come has no chunk") {
  CHECK(chunk({}, 20, 100, true) == 0);
  CHECK(chunk({}, 0, 100, true) == 0);  // it was preempted since
}

TEST_CASE("without chunked prefill a chunk is all the rest, or nothing") {
  const SchedulerOptions whole{.chunked_prefill = false};
  CHECK(chunk(whole, 0, 100) == 20);
  CHECK(chunk(whole, 0, 20) == 20);
  CHECK(chunk(whole, 0, 19) == 0);
  CHECK(chunk(whole, 12, 19) == 8);
}

TEST_CASE("first come: requests wait in the order in which they were submitted") {
  PooledScheduler s(64, 4);
  INFO("requests 7, 3, 9 have the priorities 2, 1, 0, which mean nothing here");
  s.submit(7, range(0, 3), 5, {.priority = 2});
  s.submit(3, range(0, 3), 5, {.priority = 1});
  s.submit(9, range(0, 3), 5, {.priority = 0});
  CHECK(s.waiting() == Ids{7, 3, 9});
  CHECK(s.running() == Ids{});
}

TEST_CASE("by priority: the smallest number is in front, and equals are in order of arrival") {
  PooledScheduler s(64, 4, {.order = Order::kPriority});
  INFO("requests 1 to 5 have the priorities 2, 1, 2, 0, 1");
  for (const auto& [id, priority] : std::map<int, int>{{1, 2}, {2, 1}, {3, 2}, {4, 0}, {5, 1}}) {
    s.submit(id, range(0, 3), 5, {.priority = priority});
  }
  CHECK(s.waiting() == Ids{4, 2, 5, 1, 3});
  changed(s.request(3)).arrival = 9;
  s.submit(6, range(0, 3), 5, {.priority = 2});
  INFO("6 has the priority 2, and 3 has come after all others");
  CHECK(s.waiting() == Ids{4, 2, 5, 1, 6, 3});
}

TEST_CASE("the first pass: prompts in order, until the budget is used up") {
  PooledScheduler s(64, 4, {.max_tokens_per_pass = 10});
  s.submit(1, range(0, 6), 5);
  s.submit(2, range(100, 120), 5);
  s.submit(3, range(200, 203), 5);
  const lesson08::SchedulerOutput& output = s.schedule();
  INFO("a chunk is shown as request: tokens");
  CHECK(output.chunks == Chunks{{1, 6}, {2, 4}});
  CHECK(output.started == Ids{1, 2});
  CHECK(s.running() == Ids{1, 2});
  CHECK(s.waiting() == Ids{3});
  CHECK(s.manager().table(2).num_tokens() == 4);
  s.check();
}

TEST_CASE("at most max_running requests hold blocks") {
  PooledScheduler s(64, 4, {.max_running = 2});
  for (int id = 0; id < 4; ++id) s.submit(id, range(0, 3), 5);
  s.schedule();
  CHECK(s.running() == Ids{0, 1});
  CHECK(s.waiting() == Ids{2, 3});
}

TEST_CASE("a request that does not fit waits, and no other overtakes it") {
  PooledScheduler s(4, 4);
  s.submit(1, range(0, 8), 1);
  s.submit(2, range(100, 112), 1);  // three blocks; two are free
  s.submit(3, range(200, 203), 1);
  CHECK(s.schedule().chunks == Chunks{{1, 8}});
  CHECK(s.waiting() == Ids{2, 3});
  CHECK(s.pool.num_free() == 2);
}

TEST_CASE("without chunked prefill a prompt waits for a pass that has room for all of it") {
  PooledScheduler s(64, 4, {.max_tokens_per_pass = 10, .chunked_prefill = false});
  s.submit(1, range(0, 6), 5);
  s.submit(2, range(100, 108), 2);
  CHECK(s.schedule().chunks == Chunks{{1, 6}});
  CHECK(s.running() == Ids{1});
  CHECK(s.waiting() == Ids{2});
}

// vLLM's scheduler_reserve_full_isl.
TEST_CASE(
    "the gate: a request starts if all its tokens fit, and without it if its first chunk does") {
  for (const bool gate : {true, false}) {
    CAPTURE(gate);
    PooledScheduler s(6, 4, {.max_chunk = 4, .full_sequence_must_fit = gate});
    s.submit(1, range(0, 4), 16);
    s.submit(2, range(100, 124), 1);  // six blocks; five are free
    CHECK(s.schedule().chunks == (gate ? Chunks{{1, 4}} : Chunks{{1, 4}, {2, 4}}));
  }
}

TEST_CASE("what the cache has is not computed again, and the gate asks for the rest only") {
  for (const bool preempted : {false, true}) {
    CAPTURE(preempted);
    PooledScheduler s(5, 4);
    s.submit(1, range(0, 9), 1);
    s.step();
    s.finish(1);  // two full blocks can be found
    s.submit(2, range(0, 19), 1);
    changed(s.request(2)).num_preemptions = preempted ? 1 : 0;
    const lesson08::SchedulerOutput& output = s.schedule();
    CHECK(output.chunks == Chunks{{2, 11}});
    CHECK((preempted ? output.resumed : output.started) == Ids{2});
    CHECK(s.books.prefix_cache_stats().requests == (preempted ? 1 : 2));
    CHECK(s.request(2).num_cached == 8);
    CHECK(s.request(2).num_computed == 8);
    CHECK(s.manager().table(2).num_tokens() == 19);
  }
  PooledScheduler full(5, 4, {.max_tokens_per_pass = 9});
  full.submit(1, range(0, 9), 1);
  full.step();
  full.finish(1);
  full.submit(2, range(100, 103), 1);
  full.submit(3, range(0, 19), 1);
  CHECK(full.schedule().chunks == Chunks{{2, 3}});  // 3 takes two hits and three blocks, of four
}

TEST_CASE("what the cache has is asked for with the extra keys, and not by one that skips it") {
  PooledScheduler s(16, 4);
  const lesson08::ExtraKeys salt{{lesson06::ExtraKey::Kind::kSalt, "s"}};
  s.submit(1, range(0, 9), 1, {.extra_keys = salt});
  s.step();
  s.finish(1);  // two full blocks can be found, with the salt
  s.submit(2, range(0, 9), 1);
  s.submit(3, range(0, 9), 1, {.extra_keys = salt, .skip_reading_prefix_cache = true});
  s.submit(4, range(0, 9), 1, {.extra_keys = salt});
  INFO("2 has no salt, 3 skips the cache, 4 finds 8 of its 9 tokens");
  CHECK(s.schedule().chunks == Chunks{{2, 9}, {3, 9}, {4, 1}});
  CHECK(s.books.prefix_cache_stats().requests == 3);  // 1, 2 and 4 have asked
}

int num_hashed = 0;

TEST_CASE("each full block is hashed once, while its request waits, runs, and after a preemption") {
  lesson07::BlockPool pool(5, 4);
  lesson08::KvCacheManager books(pool,
                                 {.hasher = {.hash = [](auto parent, auto tokens, auto extra_keys) {
                                    ++num_hashed;
                                    return lesson06::xxh64_block(parent, tokens, extra_keys);
                                  }}});
  lesson08::Scheduler s(books, {});
  const auto pass = [&] {
    const Chunks chunks = s.schedule().chunks;
    s.update(chunks);
    for (const lesson08::Chunk& chunk : chunks) s.add_token(chunk.id, 7);
  };
  num_hashed = 0;
  s.submit(1, range(0, 8), 8);
  s.submit(2, range(100, 109), 3);
  for (int i = 0; i < 4; ++i) pass();  // 2 does not fit, and asks again in each pass
  CHECK(s.waiting() == Ids{2});
  CHECK(s.request(1).tokens.size() == 12);
  CHECK(num_hashed == 2 + 2);
  pass();  // the twelfth token of 1 is computed
  CHECK(num_hashed == 3 + 2);
  s.reset_prefix_cache(true);  // preempts 1, and nothing is found again
  for (int i = 0; i < 2; ++i) pass();
  CHECK(s.running() == Ids{1});
  CHECK(num_hashed == 3 + 2);
  s.finish(1);
  for (int i = 0; i < 2; ++i) pass();
  CHECK(s.running() == Ids{2});
  CHECK(num_hashed == 3 + 2);
}

TEST_CASE("a preempted request gives its blocks back, and waits with its old rank") {
  PooledScheduler s(16, 4);
  s.submit(1, range(0, 9), 4);
  s.submit(2, range(100, 109), 4);
  s.step();
  s.submit(3, range(200, 203), 4);
  const auto* const first = &s.request(1);
  s.reset_prefix_cache(true);     // preempts 1 and 2, which run
  CHECK(&s.request(1) == first);  // it goes from list to list, and stays where it is
  CHECK(s.waiting() == Ids{1, 2, 3});
  CHECK(s.running() == Ids{});
  CHECK(s.pool.num_used() == 0);
  CHECK(s.request(1).num_computed == 0);
  CHECK(s.request(1).num_preemptions == 1);
  CHECK(s.request(1).tokens.size() == 10);  // with the one that was generated
  CHECK(s.num_preemptions() == 2);
  s.check();
  PooledScheduler before_token(16, 4);
  before_token.submit(1, range(0, 3), 4);
  before_token.update(before_token.schedule().chunks);
  before_token.reset_prefix_cache(true);
  CHECK(before_token.wants_token(1));  // its token is still to come
}

// vLLM #41951: by priority, a preempted request was overtaken by others of its own priority.
TEST_CASE("by priority, a preempted request waits after a more important one") {
  PooledScheduler s(16, 4, {.order = Order::kPriority});
  s.submit(1, range(0, 9), 4, {.priority = 1});
  s.step();
  s.submit(2, range(100, 103), 4, {.priority = 0});
  s.submit(3, range(200, 203), 4, {.priority = 1});  // equal to 1, and later
  s.reset_prefix_cache(true);                        // preempts 1
  CHECK(s.waiting() == Ids{2, 1, 3});
}

TEST_CASE("a preempted request starts again, and is listed as resumed") {
  PooledScheduler s(16, 4);
  s.submit(3, range(0, 9), 1);
  s.step();
  s.finish(3);
  s.submit(1, range(0, 9), 4);
  s.schedule();
  s.reset_prefix_cache(true);           // before 1 has generated a token
  CHECK(s.request(1).num_cached == 8);  // when it last started
  s.submit(2, range(100, 103), 4);
  const lesson08::SchedulerOutput& output = s.schedule();
  CHECK(s.request(1).num_cached == 0);
  CHECK(s.books.prefix_cache_stats().queries == 3);  // 1 was counted before the reset
  CHECK(output.preempted == Ids{1});
  CHECK(output.resumed == Ids{1});
  CHECK(output.started == Ids{2});
  CHECK(output.chunks == Chunks{{1, 9}, {2, 3}});
}
