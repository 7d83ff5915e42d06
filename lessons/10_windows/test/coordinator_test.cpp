// Groups that must agree: room for all of them or none, and hits that hold in each.

#include "lessons/06_prefix_hashing/cli/forgery.h"
#include "lessons/06_prefix_hashing/cli/hashers.h"
#include "tables.h"

using namespace lesson10_test;

TEST_CASE("a request has slots in every group, blocks of its own in each") {
  Groups g({0, 8, 5});
  const auto fresh = g.manager.allocate_slots(1, 9);
  REQUIRE(fresh);
  CHECK(Ids(fresh->begin(), fresh->end()) == Ids{1, 2, 3});  // group 0's
  CHECK(g.tables(1) == std::vector<Ids>{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}});
  CHECK(g.manager.num_slots_used() == 3 * 9);
  g.manager.check();
  g.manager.free(1);
  CHECK(g.pool.num_used() == 0);
  g.manager.check();
}

TEST_CASE("slots in all groups or in none, and the free blocks keep their order") {
  Groups g({0, 8, 8}, 7);
  REQUIRE(start(g.manager, 1, range(0, 8)));
  const Ids queue = g.queue();
  const auto tables = g.tables(1);
  CHECK_FALSE(g.manager.allocate_slots(2, 1));  // one free block, three groups
  CHECK_FALSE(g.manager.allocate_slots(1, 1));
  CHECK(g.queue() == queue);
  CHECK(g.tables(1) == tables);
  CHECK_FALSE(g.manager.holds(2));
  g.manager.check();
}

TEST_CASE("what falls out makes room for the same request") {
  Groups g({0, 4, 4}, 13);
  REQUIRE(start(g.manager, 1, range(0, 16)));  // 12 blocks
  // 13 tokens are unseen by now: 3 blocks of each window, and one was free.
  CHECK_FALSE(g.manager.allocate_slots(1, 12));  // 9 of 7
  CHECK(g.manager.first_block(1, 1) == 0);       // nothing has changed
  CHECK(g.pool.num_free() == 1);
  const auto fresh = g.manager.allocate_slots(1, 8);
  REQUIRE(fresh);
  CHECK(fresh->size() == 2);  // group 0's
  CHECK(g.manager.first_block(1, 1) == 3);
  CHECK(g.pool.num_free() == 1);
  g.manager.check();
}

TEST_CASE("a fallen block that another request holds makes no room") {
  Groups g({0, 8}, 8);
  run(g.manager, 1, range(0, 8));                 // 2 + 2 blocks
  REQUIRE(run(g.manager, 2, range(0, 16)) == 8);  // these, and 2 + 2 more: all are taken
  CHECK_FALSE(g.manager.allocate_slots(2, 1));    // its first 9 tokens are unseen: 2 blocks
  g.manager.free(1);
  REQUIRE(g.manager.allocate_slots(2, 1));
  g.manager.check();
}

TEST_CASE("a hit needs group 0 from the first block on, and of a window what a next query sees") {
  for (const int window : {1, 2, 4, 5, 6, 8, 9, 13, 100}) {
    CAPTURE(window);
    Groups g({0, window});
    run(g.manager, 1, range(0, 21));  // 5 full blocks
    const auto tables = g.tables(1);
    g.manager.free(1);
    const size_t first = static_cast<size_t>(std::max(0, 20 - window + 1)) / 4;
    Ids wanted = {tables[0].begin(), tables[0].begin() + 5};
    wanted.insert(wanted.end(), first, 0);
    wanted.insert(wanted.end(), tables[1].begin() + static_cast<std::ptrdiff_t>(first),
                  tables[1].begin() + 5);
    const auto computed = look_up(g.manager, range(0, 21));
    CHECK(computed.num_tokens == 20);
    CHECK(computed.chain.num_blocks == 5);
    CHECK(computed.block_ids == wanted);
    // A token less: the last one is never found.
    CHECK(found(g.manager, range(0, 20)) == 16);
    REQUIRE(start(g.manager, 2, range(0, 30)));
    CHECK(g.manager.first_block(2, 1) == static_cast<int>(first));
    g.manager.check();
  }
}

TEST_CASE("a block that a group has lost shortens the hit of all groups") {
  for (const int window : {1, 3, 5, 8, 9}) {
    for (size_t lost = 0; lost < 6; ++lost) {
      for (const int of_group : {0, 1}) {
        CAPTURE(window);
        CAPTURE(lost);
        CAPTURE(of_group);
        Groups g({0, window});
        run(g.manager, 1, range(0, 24));
        const auto tables = g.tables(1);
        g.manager.free(1);
        g.lose(tables[of_group][lost]);
        int wanted = 24;  // the longest that does not need the block
        const auto first_seen = [&](int end) { return std::max(0, end - window + 1) / 4; };
        const auto needs = [&](int end) {
          const int block = static_cast<int>(lost);
          return (of_group == 0 ? 0 : first_seen(end)) <= block && block < end / 4;
        };
        while (needs(wanted)) wanted -= 4;
        Ids entries = {tables[0].begin(), tables[0].begin() + wanted / 4};
        for (int i = 0; i < wanted / 4; ++i) {
          entries.push_back(i < first_seen(wanted) ? 0 : tables[1][i]);
        }
        const auto computed = look_up(g.manager, range(0, 25));
        CHECK(computed.num_tokens == wanted);
        CHECK(computed.block_ids == entries);
      }
    }
  }
}

TEST_CASE("two windows that disagree are asked until nothing changes") {
  // Group 2 lacks block 5, so both may go on after 5 blocks at most. There group 1 needs block 4
  // and lacks it, then group 2 block 2: 2 are left. Last, group 1 lacks block 1, too.
  Groups g({0, 5, 9});
  run(g.manager, 1, range(0, 28));
  const auto tables = g.tables(1);
  g.manager.free(1);
  g.lose(tables[2][5]);
  CHECK(found(g.manager, range(0, 29)) == 20);
  g.lose(tables[1][4]);
  CHECK(found(g.manager, range(0, 29)) == 16);
  g.lose(tables[2][2]);
  const auto computed = look_up(g.manager, range(0, 29));
  CHECK(computed.num_tokens == 8);
  CHECK(computed.chain.num_blocks == 2);
  CHECK(computed.chain.prefix == g.pool.index().block(tables[0][1])->prefix);
  CHECK(computed.block_ids ==
        Ids{tables[0][0], tables[0][1], 0, tables[1][1], tables[2][0], tables[2][1]});
  g.lose(tables[1][1]);
  CHECK(found(g.manager, range(0, 29)) == 4);
  REQUIRE(start(g.manager, 2, range(0, 29)));
  write(g.manager, 2, range(0, 29));
  CHECK(found(g.manager, range(0, 29)) == 28);
}

TEST_CASE("groups agree on all or on nothing, however many they are") {
  for (const auto& windows : {std::vector{0}, {0, 100}, {0, 100, 100, 100}}) {
    CAPTURE(windows.size());
    Groups g(windows);
    run(g.manager, 1, range(0, 12));
    const auto tables = g.tables(1);
    g.manager.free(1);
    const auto computed = look_up(g.manager, range(0, 13));
    CHECK(computed.num_tokens == 12);
    CHECK(computed.num_queried == 13);
    CHECK(computed.block_ids.size() == 3 * windows.size());
    CHECK(look_up(g.manager, range(50, 63)).num_queried == 13);  // nothing is found
    g.lose(tables.back()[0]);
    const auto nothing = look_up(g.manager, range(0, 13));
    CHECK(Ids{nothing.num_tokens, nothing.num_queried} == Ids{0, 13});
    CHECK(nothing.block_ids.empty());
    CHECK(nothing.chain.prefix == std::nullopt);
  }
}

TEST_CASE("hits of all groups are pinned before anything is taken") {
  Groups g({0, 9}, 10);
  run(g.manager, 1, range(0, 12));  // 6 blocks
  const auto tables = g.tables(1);
  g.manager.free(1);
  // 3 and 2 hits, and 2 new blocks in each group: 9 of 10.
  REQUIRE(found(g.manager, range(0, 20)) == 12);
  REQUIRE(start(g.manager, 2, range(0, 20)));
  for (const int group : {0, 1}) {
    const size_t first = group == 0 ? 0 : 1;
    for (size_t i = first; i < 3; ++i) {
      CHECK(g.table(2, group)[i] == tables[group][i]);
    }
  }
  g.manager.check();
}

TEST_CASE("hits on free blocks count as taken, in every group") {
  for (const bool room : {true, false}) {
    Groups g({0, 9}, room ? 9 : 8);
    run(g.manager, 1, range(0, 12));
    g.manager.free(1);
    const Ids queue = g.queue();
    const auto computed = look_up(g.manager, range(0, 20));
    REQUIRE(computed.num_tokens == 12);
    CHECK(g.manager.allocate_slots(2, 8, computed).has_value() == room);
    if (!room) CHECK(g.queue() == queue);
    g.manager.check();
  }
}

TEST_CASE("the gate asks for what is held at once, not for what is forgotten on the way") {
  // 40 tokens in chunks of 4: 10 blocks, and in the window's group what 4 + 4 tokens touch: 3.
  for (const int num_blocks : {12, 13}) {
    CAPTURE(num_blocks);
    Groups g({0, 5}, num_blocks, 4);
    CHECK(g.manager.max_blocks(40) == 13);
    CHECK(g.manager.num_blocks_to_allocate({}, 40) == 13);
    REQUIRE(g.manager.allocate_slots(1, 4));
    for (int done = 4; num_blocks == 13 && done < 40; done += 4) {
      CHECK(g.manager.allocate_slots(1, 4));  // and that is enough, to its end
    }
  }
}

TEST_CASE("a request that fits the pool alone is never refused there, hits or not") {
  for (const int window : {1, 4, 6, 9}) {
    CAPTURE(window);
    const int most = static_cast<int>(Groups({0, window}, 1, 4).manager.max_blocks(40));
    Groups g({0, window}, most, 4);
    for (int round = 0; round < 6; ++round) {
      CAPTURE(round);
      g.serve(range(round / 3, 40));  // other tokens from the third round on
    }
  }
}

TEST_CASE("a hash that collides is never a hit, in no group") {
  for (const int bits : {0, 1, 3}) {
    CAPTURE(bits);
    Groups g({0, 8, 3}, 200, 0, {.hasher = lesson06::narrow_hasher(bits)});
    for (int i = 0; i < 4; ++i) run_and_free(g.manager, range(i * 100, i * 100 + 17));
    for (int i = 0; i < 4; ++i) {
      const auto computed = look_up(g.manager, range(i * 100, i * 100 + 17));
      CHECK(computed.num_tokens == 16);
      const auto of_full = look_up(g.manager.full(), range(i * 100, i * 100 + 17));
      if (bits == 0 && i > 0) CHECK(computed.num_refused > of_full.num_refused);
      for (const int32_t block : computed.block_ids) {
        if (block == 0) continue;
        CHECK(g.pool.index().tokens(block)[0] / 100 == i);
      }
      Tokens other = range(i * 100, i * 100 + 17);
      other[5] = 999;
      CHECK(found(g.manager, other) == 4);
    }
  }
}

TEST_CASE("a forged collision: the window's block after it is another prefix's") {
  // Two blocks of 16 tokens with one hash, and the same tokens after both. The hashes of the third
  // blocks are equal, and so are their tokens.
  BlockPool pool(64, 16);
  KvCacheCoordinator manager(pool, groups_of({0, 8}));
  const auto prompt = [](const std::vector<int32_t>& forged) {
    Tokens tokens = range(0, 16);
    tokens.insert(tokens.end(), forged.begin(), forged.end());
    const Tokens end = range(500, 517);
    tokens.insert(tokens.end(), end.begin(), end.end());
    return tokens;
  };
  const Tokens a = prompt(lesson06::kForgedA), b = prompt(lesson06::kForgedB);
  REQUIRE(lesson06::hash_chain(a, 16, {}) == lesson06::hash_chain(b, 16, {}));
  run(manager, 1, a);
  CHECK(found(manager, b) == 16);
  run(manager, 2, b);
  const auto of_a = look_up(manager, a), of_b = look_up(manager, b);
  CHECK(of_a.block_ids == Ids{manager.table(1).block_ids()[0], manager.table(1).block_ids()[1],
                              manager.table(1).block_ids()[2], 0, 0,
                              manager.table(1, 1).block_ids()[2]});
  CHECK(of_b.block_ids[5] == manager.table(2, 1).block_ids()[2]);
  CHECK(of_b.num_refused > 0);
}

TEST_CASE("extra keys are part of a window's keys") {
  using lesson06::ExtraKey;
  Groups g({0, 8});
  const lesson06::ExtraKeys salted{{ExtraKey::Kind::kSalt, "a"}},
      other{{ExtraKey::Kind::kSalt, "b"}};
  run(g.manager, 1, range(0, 9), salted);
  CHECK(found(g.manager, range(0, 9), salted) == 8);
  CHECK(found(g.manager, range(0, 9), other) == 0);
  CHECK(found(g.manager, range(0, 9)) == 0);
}

TEST_CASE("a prefix that was lost is proved again: its window's old blocks are not found") {
  Groups g({0, 5});
  run(g.manager, 1, range(0, 9));
  const auto tables = g.tables(1);
  g.manager.free(1);
  g.lose(tables[0][0]);
  g.lose(tables[0][1]);
  CHECK(found(g.manager, range(0, 9)) == 0);
  run(g.manager, 2, range(0, 9));
  const auto computed = look_up(g.manager, range(0, 9));
  CHECK(computed.num_tokens == 8);
  CHECK(computed.block_ids.back() == g.table(2, 1)[1]);
}

TEST_CASE("without caching nothing is found, and blocks are forgotten as ever") {
  Groups g({0, 4}, 100, 0, {.caching = false});
  run(g.manager, 1, range(0, 17));
  REQUIRE(g.manager.allocate_slots(1, 1));
  CHECK(g.manager.first_block(1, 1) == 3);
  CHECK(g.pool.num_cached() == 0);
  CHECK(found(g.manager, range(0, 17)) == 0);
}

TEST_CASE("a block that falls out before anybody has cached it stays unknown") {
  Groups g({0, 4});
  REQUIRE(start(g.manager, 1, range(0, 12)));
  REQUIRE(g.manager.allocate_slots(1, 1));
  write(g.manager, 1, range(0, 13));
  CHECK(g.pool.num_cached() == 3 + 1);
  CHECK(found(g.manager, range(0, 13)) == 12);
  CHECK(found(g.manager, range(0, 9)) == 0);  // its window's block is one of those
}

// vLLM #42948: long prompts in turns, each sent again, and not one hit. The groups agree on the
// shortest prefix, and one of them has lost its first block. There groups with smaller blocks, each
// in a place of the largest size, took much of the room; here blocks of all groups have one size.
// But blocks that a later prompt forgets are younger in the queue than blocks that an earlier one
// needs. So a prompt is found as long as the pool has room for its last blocks and for all blocks
// taken after them. With a block less nothing of it is found, as the window's group has only its
// last blocks.
TEST_CASE("prompts in turns are found again, all of them or nothing") {
  // 65 tokens take 17 blocks in each of 3 groups, and hold 17 + 3 + 3 at the end. The last block of
  // group 0 is not full: no lookup needs it.
  constexpr int kTaken = 3 * 17, kHeld = 17 + 2 * 3;
  for (const bool room : {true, false}) {
    CAPTURE(room);
    Groups g({0, 8, 8}, kTaken + kHeld - (room ? 1 : 2));
    const auto serve = [&](int first) { return g.serve(range(first, first + 65)); };
    CHECK(serve(0) == 0);
    CHECK(serve(1000) == 0);
    for (int round = 0; round < 3; ++round) {
      CHECK(serve(0) == (room ? 64 : 0));
      CHECK(serve(1000) == (room ? 64 : 0));
    }
  }
}
