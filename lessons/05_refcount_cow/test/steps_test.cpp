// Small cases that can be checked by eye, in the order of the exercise's steps.

#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "block_manager.h"
#include "block_pool.h"
#include "sequences.h"
#include "tests/support/readable.h"

namespace {

using lesson05::BlockManager;
using lesson05::BlockPool;
using lesson05::Growth;
using lesson05_test::append;
using lesson05_test::new_sequence;

/// The number of holders of block 0, block 1, and so on: "2 1 0".
std::string holders(const BlockPool& pool) {
  std::vector<int> counts;
  for (int32_t id = 0; id < pool.num_blocks(); ++id) counts.push_back(pool.ref_cnt(id));
  return fmt::format("{}", fmt::join(counts, " "));
}

/// "6 tokens in 0 1".
std::string table_of(const BlockManager& manager, int seq) {
  const auto& table = manager.table(seq);
  return fmt::format("{} tokens in {}", table.num_tokens(), fmt::join(table.block_ids(), " "));
}

}  // namespace

TEST_CASE("a block is taken with one holder, and free when the last one is gone") {
  BlockPool pool(2);
  REQUIRE(pool.allocate() == 0);
  CHECK(holders(pool) == "1 0");
  pool.add_ref(0);
  CHECK(holders(pool) == "2 0");
  CHECK(pool.num_references() == 2);
  CHECK(pool.num_shared() == 1);
  pool.release(0);
  CHECK(holders(pool) == "1 0");
  CHECK(pool.num_shared() == 0);
  CHECK(pool.num_free() == 1);
  pool.release(0);
  CHECK(holders(pool) == "0 0");
  CHECK(pool.num_references() == 0);
  CHECK(pool.num_free() == 2);
  CHECK_THROWS_AS(pool.release(0), std::logic_error);  // once too often
  CHECK(pool.allocate() == 0);
  CHECK(pool.allocate() == 1);
  CHECK(pool.allocate() == std::nullopt);
}

TEST_CASE("append takes the blocks that the tokens need") {
  BlockManager manager(4, 4);
  const int a = manager.add_sequence();
  CHECK(append(manager, a, 6));
  CHECK(table_of(manager, a) == "6 tokens in 0 1");
  CHECK(append(manager, a, 2));
  CHECK(table_of(manager, a) == "8 tokens in 0 1");
  CHECK(append(manager, a, 1));
  CHECK(table_of(manager, a) == "9 tokens in 0 1 2");
  CHECK(append(manager, a, 0));
  CHECK(table_of(manager, a) == "9 tokens in 0 1 2");
  CHECK(holders(manager.pool()) == "1 1 1 0");
}

TEST_CASE("append takes all blocks or none") {
  BlockManager manager(3, 4);
  const int a = new_sequence(manager, 4);
  CHECK_FALSE(append(manager, a, 9));  // needs 3 blocks, and 2 are free
  CHECK(table_of(manager, a) == "4 tokens in 0");
  CHECK(holders(manager.pool()) == "1 0 0");
  CHECK(append(manager, a, 8));  // exactly what is free
  CHECK(table_of(manager, a) == "12 tokens in 0 1 2");
}

TEST_CASE("a fork has the same blocks, and each has one holder more") {
  BlockManager manager(4, 4);
  const int a = new_sequence(manager, 6);
  const int b = manager.fork(a);
  CHECK(b != a);
  CHECK(table_of(manager, b) == "6 tokens in 0 1");
  CHECK(table_of(manager, a) == "6 tokens in 0 1");
  CHECK(holders(manager.pool()) == "2 2 0 0");
  manager.fork(b);
  CHECK(holders(manager.pool()) == "3 3 0 0");
}

TEST_CASE("a sequence that ends leaves what others hold") {
  BlockManager manager(4, 4);
  const int a = new_sequence(manager, 6);
  const int b = manager.fork(a);
  manager.free_sequence(a);
  CHECK(holders(manager.pool()) == "1 1 0 0");
  CHECK(table_of(manager, b) == "6 tokens in 0 1");
  CHECK_THROWS_AS(manager.table(a), std::out_of_range);
  manager.free_sequence(b);
  CHECK(holders(manager.pool()) == "0 0 0 0");
  CHECK(manager.add_sequence() > b);  // no number is given twice
}

TEST_CASE("who writes into a shared block needs a block for the copy") {
  BlockManager manager(16, 4);
  const int a = new_sequence(manager, 6);  // the last block has room for 2
  const auto needed = [&](std::vector<Growth> growths) {
    return manager.blocks_to_append(growths);
  };
  const int b = manager.fork(a), c = manager.fork(a);
  CHECK(needed({{a, 1}}) == 1);
  CHECK(needed({{a, 3}}) == 2);  // the copy, and one block more
  CHECK(needed({{a, 0}}) == 0);  // nothing is written
  CHECK(needed({{a, 1}, {b, 1}}) == 2);
  CHECK(needed({{a, 1}, {b, 1}, {c, 1}}) == 2);  // the last of the holders keeps the block
  CHECK(needed({{a, 1}, {b, 0}, {c, 1}}) == 2);
  const int d = new_sequence(manager, 7), e = manager.fork(d);  // share another block
  CHECK(needed({{a, 1}, {b, 1}, {c, 1}, {d, 1}, {e, 1}}) == 2 + 1);
  manager.free_sequence(b);
  CHECK(needed({{a, 1}, {c, 1}}) == 1);
  manager.free_sequence(c);
  CHECK(needed({{a, 1}}) == 0);  // alone
}

TEST_CASE("a full last block is not written, so nobody copies it") {
  BlockManager manager(16, 4);
  const int a = new_sequence(manager, 8);
  const int b = manager.fork(a);
  const Growth growths[] = {{.seq = a, .num_tokens = 1}, {.seq = b, .num_tokens = 5}};
  CHECK(manager.blocks_to_append(growths) == 1 + 2);
}

TEST_CASE("a sequence that has no block yet copies none") {
  BlockManager manager(16, 4);
  const int a = new_sequence(manager, 6), b = manager.add_sequence();
  const Growth growths[] = {{.seq = b, .num_tokens = 5}, {.seq = a, .num_tokens = 1}};
  CHECK(manager.blocks_to_append(growths) == 2);
}
