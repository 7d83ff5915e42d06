// The text's further task, once it is begun: Order::kShortestFirst (scheduler.h).

#include <doctest/doctest.h>

#include "common/todo.h"
#include "lessons/06_prefix_hashing/test/requests.h"
#include "pooled_scheduler.h"

namespace {

using lesson06_test::range;
using lesson08_test::Chunks;
using lesson08_test::Ids;
using lesson08_test::PooledScheduler;

template <class Order>
constexpr Order shortest_first() {
  if constexpr (requires { Order::kShortestFirst; }) {
    return Order::kShortestFirst;
  } else {
    KV_TODO("give Order a kShortestFirst");
  }
}

/// One request runs at a time, and ends with its first token. Returns their ids in the order in
/// which they ran.
Ids served(PooledScheduler& s) {
  Ids ids;
  while (!s.idle() && ids.size() < 100) {
    for (const auto& chunk : s.step()) {
      ids.push_back(chunk.id);
      s.finish(chunk.id);
    }
  }
  return ids;
}

PooledScheduler one_at_a_time() {
  return PooledScheduler(16, 4, {.max_running = 1, .order = shortest_first<lesson08::Order>()});
}

}  // namespace

TEST_CASE("shortest first: of those that wait the one with the fewest tokens starts") {
  PooledScheduler s = one_at_a_time();
  s.submit(1, range(0, 20), 1);
  s.submit(2, range(100, 105), 1);
  s.submit(3, range(200, 209), 1);
  CHECK(served(s) == Ids{2, 3, 1});
}

TEST_CASE("shortest first: of equally long ones, the first to arrive") {
  PooledScheduler s = one_at_a_time();
  for (const int id : {5, 2, 9}) s.submit(id, range(10 * id, 10 * id + 7), 1);
  CHECK(served(s) == Ids{5, 2, 9});
}

TEST_CASE("shortest first: what the cache has is not left to compute") {
  PooledScheduler s = one_at_a_time();
  s.submit(1, range(0, 13), 1);
  CHECK(served(s) == Ids{1});       // 12 of its tokens can be found
  s.submit(2, range(100, 106), 1);  // 6 are left
  s.submit(3, range(0, 15), 1);     // 3 are left
  s.submit(4, range(200, 204), 1);  // 4 are left
  CHECK(served(s) == Ids{3, 4, 2});
}

TEST_CASE("shortest first: a request that skips the cache has all its tokens left") {
  PooledScheduler s = one_at_a_time();
  s.submit(1, range(0, 13), 1);
  CHECK(served(s) == Ids{1});
  s.submit(2, range(0, 13), 1, {.skip_reading_prefix_cache = true});
  s.submit(3, range(100, 106), 1);
  CHECK(served(s) == Ids{3, 2});
}

TEST_CASE("shortest first: a preempted request counts what it has to compute again") {
  PooledScheduler s = one_at_a_time();
  s.submit(1, range(0, 7), 4);
  CHECK(s.step() == Chunks{{1, 7}});
  s.reset_prefix_cache(true);  // 8 tokens are known, none is cached
  s.submit(2, range(100, 106), 1);
  CHECK(s.step() == Chunks{{2, 6}});
}
