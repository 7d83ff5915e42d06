// The text's further task, once it is begun: KvCacheGroup::chunked (kv_cache_groups.h).

#include "common/todo.h"
#include "tables.h"

using namespace lesson10_test;

namespace {

template <class Group>
Group chunked(int chunk) {
  if constexpr (requires(Group group) { group.chunked = true; }) {
    Group group{.window = chunk, .layers = {1}};
    group.chunked = true;
    return group;
  } else {
    KV_TODO("give KvCacheGroup a member chunked");
  }
}

/// Group 0, and one whose layers see their chunk.
struct Chunked : Groups {
  explicit Chunked(int chunk, int num_blocks = 100, int max_new_tokens = 0)
      : Groups({{.window = 0, .layers = {0}}, chunked<KvCacheGroup>(chunk)}, num_blocks,
               max_new_tokens) {}
};

}  // namespace

TEST_CASE("chunks: what is before the next query's chunk falls out, and nothing else") {
  for (const int chunk : {1, 4, 6, 8, 16}) {
    CAPTURE(chunk);
    Chunked c(chunk);
    REQUIRE(c.manager.allocate_slots(1, 1));
    for (int position = 1; position < 60; ++position) {
      CAPTURE(position);
      REQUIRE(c.manager.allocate_slots(1, 1));  // for the token at this position
      CHECK(c.manager.first_block(1, 1) == position / chunk * chunk / 4);
      c.manager.check();
    }
  }
}

TEST_CASE("chunks: no more blocks are held at once than was said") {
  for (const int chunk : {4, 6, 16}) {
    for (const int at_once : {1, 3, 9}) {
      CAPTURE(chunk);
      CAPTURE(at_once);
      Chunked c(chunk, 200, at_once);
      for (int n = at_once; n < 100; n += at_once) {
        REQUIRE(c.manager.allocate_slots(1, at_once));
        CHECK(c.pool.num_used() <= c.manager.max_blocks(n));
      }
    }
  }
}

TEST_CASE("chunks: a hit needs the blocks of the chunk in which it ends") {
  Chunked c(8);
  run(c.manager, 1, range(0, 21));
  const Ids ids = c.table(1, 1);
  const auto hits = [&](int num_tokens) {
    const auto computed = look_up(c.manager, range(0, num_tokens));
    const auto begin = computed.block_ids.begin() + computed.chain.num_blocks;
    return Ids(begin, computed.block_ids.end());
  };
  CHECK(hits(21) == Ids{0, 0, 0, 0, ids[4]});
  CHECK(hits(17) == Ids{0, 0, 0, 0});  // the end of a chunk
  CHECK(hits(13) == Ids{0, 0, ids[2]});
  CHECK(hits(9) == Ids{0, 0});
  CHECK(hits(5) == Ids{ids[0]});
}

TEST_CASE("chunks: a block that is lost shortens a hit to where it is not needed") {
  for (int lost = 0; lost < 6; ++lost) {
    CAPTURE(lost);
    // Chunks of 12 tokens are three blocks. Six blocks are there, a seventh is not full.
    Chunked c(12, 14);
    REQUIRE(c.manager.allocate_slots(1, 25));
    write(c.manager, 1, range(0, 25));
    const Ids ids = c.table(1, 1);
    c.manager.free(1);
    c.lose(ids[lost]);
    // 24 tokens are the end of a chunk; with 23 known, 20 may be found: blocks 3 and 4 are needed.
    CHECK(found(c.manager, range(0, 25)) == 24);
    CHECK(found(c.manager, range(0, 24)) == (lost == 3 ? 12 : lost == 4 ? 16 : 20));
  }
}
