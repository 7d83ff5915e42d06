// Which blocks are copied to the host, and in which order they are overwritten: without a byte of K
// and V.

#include <fmt/format.h>

#include "two_pools.h"

namespace lesson11 {

inline std::string readable(const BlockMove& move) {
  return fmt::format("{} and {}", move.device, move.host);
}

}  // namespace lesson11

using namespace lesson11_test;

TEST_CASE("the device's next victims are offloaded, and stay what they are") {
  TwoPools t({.device = 6});
  t.run(1, t.prompt(0, 16));
  REQUIRE(queue_of(t.device) == Ids{5, 6, 4, 3, 2, 1});  // 4 has the last tokens
  t.offload();
  CHECK(t.in_flight(Direction::kOffload) == Moves{{4, 1}, {3, 2}, {2, 3}, {1, 4}});
  CHECK(queue_of(t.device) == Ids{5, 6, 4, 3, 2, 1});
  CHECK(t.device.num_cached() == 4);
  CHECK(t.host.num_cached() == 4);
  CHECK(t.host.num_used() == 0);
  CHECK(queue_of(t.host) == Ids{5, 6, 7, 8, 1, 2, 3, 4});  // the tail goes before the head
  CHECK(t.host.index().block(1)->prefix == t.device.index().block(4)->prefix);
  t.end_copies();
  CHECK(t.content(Direction::kLoad, 4) == t.content(Direction::kOffload, 1));
}

TEST_CASE("of the next victims the given number are looked at") {
  TwoPools t({.device = 6, .ahead = 3});
  t.run(1, t.prompt(0, 16));
  t.offload();
  CHECK(t.in_flight(Direction::kOffload) == Moves{{4, 1}});  // 5 and 6 hold nothing
  TwoPools small({.device = 6, .host = 2});
  small.run(1, small.prompt(0, 16));
  small.offload();
  CHECK(small.in_flight(Direction::kOffload) == Moves{{4, 1}, {3, 2}});
}

TEST_CASE("a block that too few requests have found is not offloaded") {
  TwoPools t({.device = 6, .min_hits = 1});
  t.run(1, t.prompt(0, 8));
  t.offload();
  CHECK(t.in_flight(Direction::kOffload).empty());
  t.run(2, t.prompt(0, 5));  // finds the first block
  t.offload();
  CHECK(t.in_flight(Direction::kOffload) == Moves{{1, 1}});
}

TEST_CASE("a block with a copy in the host is not copied again") {
  TwoPools t;
  t.run(1, t.prompt(0, 16));
  t.offload();
  t.offload();
  CHECK(t.manager.metrics().num_offloaded == 4);
  t.end_copies();
  t.offload();
  CHECK(t.copies.started() == 1);
  t.run(2, t.prompt(1, 4));
  t.offload();
  CHECK(t.manager.metrics().num_offloaded == 5);
  REQUIRE(t.manager.allocate_slots(3, 8));  // two blocks that only the first job reads
  CHECK(t.manager.take_write_job() == 1);
}

TEST_CASE("a block that is copied is given out with the job that reads it") {
  TwoPools t({.device = 3, .host = 4, .ahead = 2});
  t.run(1, t.prompt(0, 8));
  t.offload();
  REQUIRE(t.in_flight(Direction::kOffload) == Moves{{2, 1}});
  REQUIRE(t.manager.allocate_slots(2, 8));  // blocks 3 and 2
  CHECK(t.manager.take_write_job() == 1);
  t.manager.free(2);
  t.run(3, t.prompt(1, 8));  // in blocks 1 and 2
  t.offload();
  REQUIRE(t.manager.allocate_slots(4, 8));  // blocks 3 and 2 again
  CHECK(t.manager.take_write_job() == 2);
}

TEST_CASE("two blocks with the same content are copied once, also in a host of one block") {
  for (const int host : {8, 1}) {
    CAPTURE(host);
    TwoPools t({.host = host});
    for (const int64_t id : {1, 2}) {  // neither has looked for the other's
      REQUIRE(t.manager.allocate_slots(id, 4));
      BlockHashes hashes;
      t.manager.cache_blocks(id, t.prompt(0, 4), hashes, 4);
    }
    t.manager.free(1);
    t.manager.free(2);
    REQUIRE(t.device.num_cached() == 2);
    t.offload();
    CHECK(t.in_flight(Direction::kOffload) == Moves{{1, 1}});
  }
}

TEST_CASE("copies of the next victims are overwritten last, the tail before the head") {
  TwoPools t({.device = 4, .host = 8});
  t.run(1, t.prompt(0, 8));
  t.run(2, t.prompt(1, 8));
  t.offload_all();
  // Text 1's copies are 3 and 4, text 0's 1 and 2; the smaller number is the tail.
  REQUIRE(queue_of(t.host) == Ids{5, 6, 7, 8, 1, 2, 3, 4});
  t.run(3, t.prompt(0, 9));  // text 0 is used again, and takes a block of text 1
  t.offload_all();
  CHECK(queue_of(t.host) == Ids{5, 6, 7, 8, 3, 4, 1, 2});
}

TEST_CASE("in a small host the copies of the next victims keep their places") {
  TwoPools t({.device = 4, .host = 2});
  t.run(1, t.prompt(0, 16));
  for (int i = 0; i < 4; ++i) t.offload_all();
  CHECK(t.manager.metrics().num_offloaded == 2);
  CHECK(t.content(Direction::kLoad, 1) == t.content(Direction::kOffload, 4));
  CHECK(t.content(Direction::kLoad, 2) == t.content(Direction::kOffload, 3));
  t.run(2, t.prompt(1, 4));  // evicts block 4, so its copy gives way in the full host
  t.offload_all();
  CHECK(t.content(Direction::kLoad, 1) == t.content(Direction::kOffload, 2));
}

TEST_CASE("numbers of prefixes begin beyond those that the host's pool has") {
  DevicePool device(2, 4);
  BlockPool host(2, 4);
  std::vector<int32_t> ids(1);
  host.get_new_blocks(ids);
  const Tokens tokens = TwoPools::prompt(0, 4);
  host.cache_full_block(ids[0],
                        {.hash = 1, .parent = 41, .tokens = tokens, .extra_keys = {}, .prefix = 5});
  host.free_blocks(ids);
  SteppedTransfers copies({});
  HostTierManager manager(device, host, copies);
  BlockHashes hashes;
  REQUIRE(manager.allocate_slots(1, 4));
  manager.cache_blocks(1, tokens, hashes, 4);
  CHECK(device.index().block(1)->prefix == 42);
}

TEST_CASE("blocks in flight are given out: they are written after the job") {
  TwoPools t({.device = 2, .host = 4});
  t.run(1, t.prompt(0, 8));
  t.offload();
  SUBCASE("that reads them") {
    t.run(2, t.prompt(1, 8));  // write() waits
    t.finish_all();
    t.load(3, t.prompt(0, 8));
    t.finish_all();
    CHECK(t.content(Direction::kOffload, queue_of(t.device).back()) == t.kv_of(t.prompt(0, 4)));
  }
  SUBCASE("and the job is named once") {
    REQUIRE(t.manager.allocate_slots(2, 8));
    CHECK(t.manager.take_write_job() == 1);
    CHECK(t.manager.take_write_job() == 0);
  }
  SUBCASE("of two jobs the second one") {
    t.run(2, t.prompt(1, 4));
    t.offload();
    REQUIRE(t.manager.allocate_slots(3, 8));
    CHECK(t.manager.take_write_job() == t.copies.started());
  }
  SUBCASE("and no job when it is complete") {
    t.finish_all();
    REQUIRE(t.manager.allocate_slots(2, 8));
    CHECK(t.manager.take_write_job() == 0);
  }
}

TEST_CASE("an offload that cannot be started leaves both pools as they were") {
  TwoPools t;
  t.run(1, t.prompt(0, 8));
  t.copies.refuses = true;
  CHECK_THROWS(t.offload());
  CHECK(t.host.num_cached() == 0);
  CHECK(t.host.num_used() == 0);
  CHECK(t.manager.metrics().num_offloaded == 0);
  t.copies.refuses = false;
  t.offload_all();
  CHECK(t.host.num_cached() == 2);
  t.manager.check();
}
