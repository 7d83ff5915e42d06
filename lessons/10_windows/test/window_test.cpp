// One group that forgets, alone: the tokens that no later query sees, the blocks that go back, and
// the hits that its window leaves.

#include "kernels/attention/contract.h"
#include "lessons/06_prefix_hashing/cli/hashers.h"
#include "tables.h"

using namespace lesson10_test;
using lesson10::SlidingWindowManager;

namespace {

/// Request 1 has a table of 6 blocks of 4 tokens in group 1.
struct Window {
  explicit Window(int window) : manager(pool, 1, window) {
    manager.add(1, {});
    manager.extend(1, 24);
    blocks = table();
  }
  Ids skipped_blocks(int num_computed) const {
    const auto ids = manager.skipped_blocks(1, num_computed);
    return {ids.begin(), ids.end()};
  }
  Ids table() const {
    const auto ids = manager.table(1).block_ids();
    return {ids.begin(), ids.end()};
  }
  Ids queue() const { return queue_of(pool); }

  BlockPool pool{10, 4};
  SlidingWindowManager manager;
  Ids blocks;  // 1 to 6
};

/// 26 tokens were computed and can be found, 6 blocks in each group, and no request holds them.
struct Cached : Groups {
  explicit Cached(int window, const lesson06::CacheManagerOptions& options = {})
      : Groups({0, window}, 100, 0, options), manager(pool, 1, window) {
    REQUIRE(Groups::manager.allocate_slots(1, 26));
    write(Groups::manager, 1, range(0, 26));
    for (Ids table : tables(1)) blocks.emplace_back(table.begin(), table.begin() + 6);
    Groups::manager.free(1);
  }
  /// The hit within the first num_blocks of group 0's blocks.
  Ids hit(size_t num_blocks = 6) const {
    return manager.find_longest_cache_hit(std::span(blocks[0]).first(num_blocks), num_refused);
  }

  mutable int64_t num_refused = 0;
  SlidingWindowManager manager;
  std::vector<Ids> blocks;  // of each group
};

}  // namespace

TEST_CASE("which tokens no later query sees") {
  const auto skipped = [](int window, int num_computed) {
    BlockPool none(1, 4);
    return SlidingWindowManager(none, 1, window).num_skipped_tokens(num_computed);
  };
  INFO("a window of 8");
  CHECK(skipped(8, 0) == 0);
  CHECK(skipped(8, 7) == 0);  // the next query is at position 7 and sees tokens 0 to 7
  CHECK(skipped(8, 8) == 1);
  CHECK(skipped(8, 19) == 12);
  CHECK(skipped(1, 19) == 19);  // it sees itself
  CHECK(skipped(0, 19) == 0);   // no window
  for (const int window : {0, 1, 2, 5, 16, 100}) {
    for (int n = 0; n < 200; ++n) CHECK(skipped(window, n) == kv::attention::first_key(n, window));
  }
}

TEST_CASE("a block has fallen out when all of its tokens are unseen") {
  const Window w(6);
  INFO("a window of 6, blocks 1 to 6 of 4 tokens");
  CHECK(w.skipped_blocks(0).empty());
  CHECK(w.skipped_blocks(8).empty());  // tokens 0 to 2 are unseen
  CHECK(w.skipped_blocks(9) == Ids{1});
  CHECK(w.skipped_blocks(12) == Ids{1});
  CHECK(w.skipped_blocks(13) == Ids{1, 2});
  CHECK(w.skipped_blocks(24) == Ids{1, 2, 3, 4});
  CHECK(Window(0).skipped_blocks(24).empty());

  Window hit(6);  // request 2 begins after a hit: two of its entries are null blocks from the start
  hit.manager.add(2, Ids{0, 0, 3, 4});
  CHECK(hit.manager.skipped_blocks(2, 12).empty());
  CHECK(hit.manager.skipped_blocks(2, 16).empty());
  const auto third = hit.manager.skipped_blocks(2, 17);
  CHECK(Ids(third.begin(), third.end()) == Ids{3});
}

TEST_CASE("what fell out goes back, the tail first, and nothing else in the table moves") {
  Window w(6);
  w.manager.remove_skipped_blocks(1, 8);
  CHECK(w.table() == Ids{1, 2, 3, 4, 5, 6});
  w.manager.remove_skipped_blocks(1, 13);
  CHECK(w.table() == Ids{0, 0, 3, 4, 5, 6});
  CHECK(w.manager.first_block(1) == 2);
  CHECK(w.queue() == Ids{7, 8, 9, 10, 2, 1});
  for (const int same : {13, 9})
    w.manager.remove_skipped_blocks(1, same);  // nothing more falls out
  CHECK(w.skipped_blocks(13).empty());
  CHECK(w.skipped_blocks(17) == Ids{3});
  w.manager.remove_skipped_blocks(1, 17);
  CHECK(w.table() == Ids{0, 0, 0, 4, 5, 6});
  CHECK(w.queue() == Ids{7, 8, 9, 10, 2, 1, 3});
  w.manager.free(1);
  CHECK(w.pool.num_used() == 0);
}

TEST_CASE("a window's hit: null blocks, and then the blocks that a next query sees") {
  const Cached of_5(5), of_6(6);
  INFO("6 blocks of 4 tokens are there in both groups");
  CHECK(of_5.hit() == Ids{0, 0, 0, 0, 0, of_5.blocks[1][5]});  // sees 4 tokens before its own
  CHECK(of_6.hit() == Ids{0, 0, 0, 0, of_6.blocks[1][4], of_6.blocks[1][5]});
  CHECK(of_6.hit(3) == Ids{0, of_6.blocks[1][1], of_6.blocks[1][2]});
  CHECK(of_6.hit(1) == Ids{of_6.blocks[1][0]});
  CHECK(of_6.hit(0).empty());
  CHECK(Cached(1).hit() == Ids{0, 0, 0, 0, 0, 0});  // sees nothing but itself
  const Cached keeps_all(0);
  CHECK(keeps_all.hit() == keeps_all.blocks[1]);
  CHECK(keeps_all.num_refused == 0);
  Cached two_hashes(5, {.hasher = lesson06::narrow_hasher(1)});
  two_hashes.num_refused = 1'000'000;
  CHECK(two_hashes.hit() == Ids{0, 0, 0, 0, 0, two_hashes.blocks[1][5]});
  CHECK(two_hashes.num_refused > 1'000'000);  // others of its hash come before it, and are added
}

TEST_CASE("a window's hit ends where the last blocks before it are there, or at the beginning") {
  Cached c(9);  // needs two blocks in a row
  INFO("6 blocks of 4 tokens, a window of 9");
  const Ids& ids = c.blocks[1];
  c.lose(ids[2]);
  CHECK(c.hit() == Ids{0, 0, 0, 0, ids[4], ids[5]});  // 2 is not needed
  c.lose(ids[5]);
  CHECK(c.hit() == Ids{0, 0, 0, ids[3], ids[4]});
  c.lose(ids[3]);
  CHECK(c.hit() == Ids{ids[0], ids[1]});  // 4 alone is too little
  c.lose(ids[1]);
  CHECK(c.hit() == Ids{ids[0]});  // the beginning needs nothing before it
  c.lose(ids[0]);
  CHECK(c.hit().empty());
  Cached three(13);  // needs three blocks in a row
  three.lose(three.blocks[1][3]);
  CHECK(three.hit() == Ids(three.blocks[1].begin(), three.blocks[1].begin() + 3));
}

TEST_CASE("blocks of another prefix are none of a window's hit") {
  Groups g({0, 5});
  run(g.manager, 1, range(0, 12));
  Tokens other = range(0, 12);
  other[0] = 99;
  run(g.manager, 2, other);
  const SlidingWindowManager manager(g.pool, 1, 5);
  int64_t num_refused = 0;
  CHECK(manager.find_longest_cache_hit(g.table(2, 0), num_refused) == Ids{0, 0, g.table(2, 1)[2]});
  CHECK(manager.find_longest_cache_hit(g.table(1, 0), num_refused) == Ids{0, 0, g.table(1, 1)[2]});
}
