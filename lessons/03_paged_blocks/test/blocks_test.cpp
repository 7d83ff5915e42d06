// Tests of lesson 03's bookkeeping: the pool, the tables, the manager.

#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "block_manager.h"
#include "block_pool.h"
#include "block_table.h"
#include "page/check_manager.h"
#include "tests/support/readable.h"

using lesson03::BlockManager;
using lesson03::BlockPool;
using lesson03::BlockTable;

namespace {

/// Adds num_tokens tokens, which need just these blocks.
void extend(BlockTable& table, int num_tokens, const std::vector<int32_t>& ids) {
  const std::span<int32_t> entries = table.extend(num_tokens);
  REQUIRE(entries.size() == ids.size());
  std::ranges::copy(ids, entries.begin());
}

BlockTable table_of(int block_size, const std::vector<int32_t>& ids, int num_tokens) {
  BlockTable table(block_size);
  extend(table, num_tokens, ids);
  return table;
}

std::string drawn(const BlockTable& table) {
  return fmt::format("{}", fmt::join(table.block_ids(), " "));
}

}  // namespace

TEST_CASE("the pool is a stack: the block freed last is taken first") {
  BlockPool pool(3);
  CHECK(pool.allocate() == 0);
  CHECK(pool.allocate() == 1);
  CHECK(pool.num_free() == 1);
  pool.free(0);
  pool.free(1);
  CHECK(pool.num_free() == 3);
  CHECK(pool.allocate() == 1);
  CHECK(pool.allocate() == 0);
  CHECK(pool.allocate() == 2);
  CHECK(pool.allocate() == std::nullopt);  // none is left
}

TEST_CASE("a block freed twice or unknown is named and nothing changes") {
  BlockPool pool(40);
  for (int i = 0; i < 38; ++i) pool.allocate();  // 0 .. 37
  pool.free(17);
  pool.free(5);
  CHECK_FALSE(pool.is_used(17));
  CHECK_THROWS_WITH_AS(pool.free(17), doctest::Contains("17"), std::logic_error);
  try {
    pool.free(17);
  } catch (const std::logic_error& error) {
    INFO("std::out_of_range is a std::logic_error, too, and means an unknown block");
    CHECK(dynamic_cast<const std::out_of_range*>(&error) == nullptr);
  }
  for (const int32_t unknown : {-1, 40, std::numeric_limits<int32_t>::max()}) {
    CHECK_THROWS_WITH_AS(pool.free(unknown), doctest::Contains(std::to_string(unknown).c_str()),
                         std::out_of_range);
    CHECK_THROWS_AS(pool.is_used(unknown), std::out_of_range);
  }
  CHECK(pool.num_free() == 4);
  CHECK(pool.num_used() == 36);
}

TEST_CASE("a pool of a million blocks takes and frees without a search") {
  constexpr int kBlocks = 1 << 20;
  BlockPool pool(kBlocks);
  for (int i = 0; i < kBlocks; ++i) pool.allocate();
  CHECK(pool.num_free() == 0);
  for (int32_t id = 0; id < kBlocks; ++id) pool.free(id);
  CHECK(pool.num_free() == kBlocks);
  CHECK(pool.allocate() == kBlocks - 1);
}

TEST_CASE("everything is allocated, and freed in every order") {
  std::vector<int32_t> order{0, 1, 2, 3, 4};
  do {
    BlockPool pool(5);
    std::vector<int32_t> ids;
    for (int i = 0; i < 5; ++i) ids.push_back(pool.allocate().value_or(-1));
    REQUIRE_FALSE(pool.allocate().has_value());
    std::vector<int32_t> sorted = ids;
    std::sort(sorted.begin(), sorted.end());
    REQUIRE(sorted == std::vector<int32_t>{0, 1, 2, 3, 4});
    for (const int32_t id : order) {
      CAPTURE(id);
      pool.free(id);
      REQUIRE(pool.num_free() + pool.num_used() == pool.num_blocks());
      REQUIRE_FALSE(pool.is_used(id));
    }
    REQUIRE(pool.num_free() == 5);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("a table takes a block when its last one is full") {
  BlockTable table(4);
  CHECK(table.blocks_to_extend(0) == 0);
  CHECK(table.blocks_to_extend(4) == 1);
  CHECK(table.blocks_to_extend(5) == 2);
  extend(table, 3, {7});
  CHECK(table.num_tokens() == 3);
  CHECK(table.blocks_to_extend(1) == 0);  // block 7 has a slot left
  CHECK(table.blocks_to_extend(2) == 1);
  CHECK(table.blocks_to_extend(5) == 1);  // one of them goes into block 7
  CHECK(table.blocks_to_extend(6) == 2);
  extend(table, 1, {});
  CHECK(table.num_tokens() == 4);
  extend(table, 5, {2, 9});
  CHECK(table.num_tokens() == 9);
  CHECK(drawn(table) == "7 2 9");
}

TEST_CASE("a table of half a million blocks grows by one block at a time") {
  constexpr int kBlocks = 1 << 19;
  BlockTable table(1);
  for (int32_t id = 0; id < kBlocks; ++id) extend(table, 1, {id});
  CHECK(table.num_blocks() == kBlocks);
  CHECK(table.block_ids().back() == kBlocks - 1);
}

TEST_CASE("a table refuses an impossible length and stays as it was") {
  BlockTable table = table_of(4, {7}, 3);
  for (const int impossible : {-1, std::numeric_limits<int>::max() - 2}) {
    CAPTURE(impossible);
    CHECK_THROWS_AS(table.blocks_to_extend(impossible), std::invalid_argument);
    CHECK_THROWS_AS(table.extend(impossible), std::invalid_argument);
  }
  CHECK(table.blocks_to_extend(std::numeric_limits<int>::max() - 3) == (1 << 29) - 1);
  CHECK(table_of(1 << 30, {1, 2}, std::numeric_limits<int>::max()).blocks_to_extend(0) == 0);
  CHECK(table.num_tokens() == 3);
  CHECK(drawn(table) == "7");
}

TEST_CASE("the tokens of a table of blocks 1, 3 and 5 are in their slots") {
  const BlockTable table = table_of(4, {1, 3, 5}, 9);  // the text's sequence B
  CHECK(table.slot(0) == 4);
  CHECK(table.slot(3) == 7);
  CHECK(table.slot(4) == 12);
  CHECK(table.slot(6) == 14);
  CHECK(table.slot(8) == 20);
  CHECK_THROWS_AS(table.slot(9), std::out_of_range);
  CHECK_THROWS_AS(table.slot(-1), std::out_of_range);
}

TEST_CASE("any token of a long table is found at once") {
  constexpr int kBlocks = 1 << 19;
  std::vector<int32_t> ids(kBlocks);
  std::iota(ids.begin(), ids.end(), 0);
  const BlockTable table = table_of(2, ids, 2 * kBlocks);
  int num_right = 0;
  for (int token = 0; token < 2 * kBlocks; ++token) num_right += table.slot(token) == token;
  CHECK(num_right == 2 * kBlocks);
}

TEST_CASE("a pool that runs out midway gives all or nothing") {
  BlockManager manager(5, 4);
  const int a = manager.add_sequence();
  const int b = manager.add_sequence();
  REQUIRE(manager.extend(a, 9));      // 3 blocks, the last with one token
  CHECK_FALSE(manager.extend(b, 9));  // two blocks are free, three are wanted
  CHECK(manager.table(b).num_tokens() == 0);
  CHECK(manager.pool().num_free() == 2);
  check(manager);
  CHECK(manager.extend(b, 8));
  CHECK(manager.extend(a, 3));  // into the block that a has
  CHECK(manager.pool().num_free() == 0);
  CHECK_FALSE(manager.extend(a, 1));
  CHECK(manager.table(a).num_tokens() == 12);
  check(manager);
  CHECK_THROWS_AS(manager.extend(a, -1), std::invalid_argument);
  CHECK_THROWS_AS(manager.extend(a, std::numeric_limits<int>::max()), std::invalid_argument);
  check(manager);
}

TEST_CASE("a sequence that does not exist is named, and its number never comes back") {
  BlockManager manager(4, 16);
  const int seq = manager.add_sequence();
  manager.free_sequence(seq);
  CHECK_THROWS_WITH_AS(manager.free_sequence(seq), doctest::Contains("no sequence 0"),
                       std::out_of_range);
  CHECK_THROWS_AS(manager.extend(seq, 1), std::out_of_range);
  CHECK(manager.add_sequence() != seq);
}

TEST_CASE("lengths around block boundaries: exact tables and exact last-block fill") {
  for (const int size : {1, 2, 3, 16, 256}) {  // 3 is no power of two
    for (const int tokens : {0, 1, size - 1, size, size + 1, 3 * size, 3 * size + 1}) {
      CAPTURE(size);
      CAPTURE(tokens);
      BlockManager manager(8, size);
      const int seq = manager.add_sequence();
      REQUIRE(manager.extend(seq, tokens));
      const BlockTable& table = manager.table(seq);
      CHECK(table.num_tokens() == tokens);
      CHECK(table.num_blocks() == (tokens + size - 1) / size);
      // The last block of k * size tokens is full, not empty.
      const int fill = tokens == 0 ? 0 : tokens % size == 0 ? size : tokens % size;
      CHECK(table.last_block_fill() == fill);
      CHECK(table.num_blocks() * size - tokens < size);  // what paging wastes
      for (int t = 0; t < tokens; ++t) {
        CHECK(table.slot(t) == table.block_ids()[t / size] * size + t % size);
      }
      CHECK_THROWS_AS(table.slot(tokens), std::out_of_range);
      CHECK_THROWS_AS(table.slot(-1), std::out_of_range);
      check(manager);
    }
  }
}

TEST_CASE("a slot past 2^31 is a 64-bit number") {
  const BlockTable table = table_of(256, {1 << 23, (1 << 24) + 5}, 300);
  CHECK(table.slot(0) == int64_t{1} << 31);
  CHECK(table.slot(299) == int64_t{(1 << 24) + 5} * 256 + 43);
}

TEST_CASE("an impossible size is refused") {
  CHECK_THROWS_AS(BlockTable(0), std::invalid_argument);
  CHECK_THROWS_AS(BlockPool(0), std::invalid_argument);
  CHECK_THROWS_AS(BlockManager(0, 16), std::invalid_argument);
  CHECK_THROWS_AS(BlockManager(4, -1), std::invalid_argument);
  BlockTable table = table_of(4, {7}, 3);
  CHECK_THROWS_AS(table.replace(1, 3), std::out_of_range);
}

TEST_CASE("the slot mapping names the slots of the last rows and the tables are padded") {
  const BlockTable a = table_of(4, {5, 2}, 6), b = table_of(4, {9}, 1);
  kv::PassRows rows;
  rows.add(0, std::vector<int32_t>(6), 3);
  rows.add(1, std::vector<int32_t>(1), 0);
  CHECK(lesson03::slot_mapping_of(rows, {&a, &b}) ==
        std::vector<int64_t>{5 * 4 + 3, 2 * 4, 2 * 4 + 1, 36});
  CHECK(lesson03::pack_block_tables(rows, {&a, &b}, 3) ==
        std::vector<int32_t>{5, 2, -1, 9, -1, -1});
  CHECK_THROWS_AS(lesson03::pack_block_tables(rows, {&a, &b}, 1), std::invalid_argument);
  CHECK_THROWS_AS(lesson03::pack_block_tables(rows, {&b, &b}, 3), std::invalid_argument);
}

TEST_CASE("random operations against a model that only counts") {
  for (const uint64_t seed : {1u, 2u, 3u}) {
    std::mt19937_64 rng(seed);
    const auto pick = [&](int below) {
      return static_cast<int>(rng() % static_cast<uint64_t>(below));
    };
    const int block_size = 1 << pick(5);
    const int num_blocks = 1 + pick(40);
    BlockManager manager(num_blocks, block_size);
    std::map<int, int> tokens;  // by sequence: the whole model
    const auto blocks = [&](int n) { return (n + block_size - 1) / block_size; };
    for (int op = 0; op < 4000; ++op) {
      CAPTURE(seed);
      CAPTURE(op);
      int used = 0;
      for (const auto& [seq, n] : tokens) used += blocks(n);
      if (tokens.empty() || pick(8) == 0) {
        tokens[manager.add_sequence()] = 0;
      } else {
        auto at = std::next(tokens.begin(), pick(static_cast<int>(tokens.size())));
        if (pick(6) == 0) {
          manager.free_sequence(at->first);
          tokens.erase(at);
        } else {
          const int more = pick(3 * block_size + 1);
          const bool fits = used - blocks(at->second) + blocks(at->second + more) <= num_blocks;
          CHECK(manager.extend(at->first, more) == fits);
          if (fits) at->second += more;
        }
      }
      check(manager);
      int expected = 0;
      for (const auto& [seq, n] : tokens) {
        CHECK(manager.table(seq).num_tokens() == n);
        expected += blocks(n);
      }
      CHECK(manager.pool().num_used() == expected);
    }
  }
}
