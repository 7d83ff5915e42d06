// Tests of lesson 05's bookkeeping: which sequence holds which block, and which blocks a write may
// touch.

#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "block_manager.h"
#include "block_pool.h"
#include "sequences.h"
#include "tests/support/readable.h"

namespace {

using lesson05::BlockCopy;
using lesson05::BlockManager;
using lesson05::BlockPool;
using lesson05::Growth;
using lesson05_test::append;
using lesson05_test::new_sequence;

/// All that can be seen of a manager, to compare.
std::string state_of(const BlockManager& manager) {
  manager.check();
  std::string state =
      fmt::format("{} copies, {} free;", manager.num_copies(), manager.pool().num_free());
  for (const auto& [seq, table] : manager.tables()) {
    state += fmt::format(" {}: {} tokens in {}", seq, table.num_tokens(), table.block_ids());
  }
  return state;
}

/// A manager whose blocks hold bytes: slot s is `bytes[s]`.
struct Memory {
  Memory(int num_blocks, int block_size)
      : bytes(num_blocks * block_size, ' '),
        manager(num_blocks, block_size, [this](std::span<const BlockCopy> copies) {
          ++calls;
          const auto size = manager.block_size();
          for (const BlockCopy& copy : copies) {
            std::copy_n(bytes.begin() + copy.source * size, size,
                        bytes.begin() + copy.destination * size);
          }
        }) {}
  void write(int seq, const std::string& text) {
    const int first = manager.table(seq).num_tokens();
    REQUIRE(append(manager, seq, static_cast<int>(text.size())));
    for (size_t i = 0; i < text.size(); ++i) slot(seq, first + static_cast<int>(i)) = text[i];
  }
  std::string read(int seq) {
    std::string text;
    for (int t = 0; t < manager.table(seq).num_tokens(); ++t) text += slot(seq, t);
    return text;
  }
  char& slot(int seq, int token) { return bytes[manager.table(seq).slot(token)]; }
  std::string bytes;
  int calls = 0;
  BlockManager manager;
};

}  // namespace

TEST_CASE("the pool names what is wrong and stays as it was") {
  CHECK_THROWS_AS(BlockPool(0), std::invalid_argument);
  BlockPool pool(3);
  CHECK_THROWS_WITH_AS(pool.release(0), "BlockPool: block 0 is released, but it is free",
                       std::logic_error);
  CHECK_THROWS_WITH_AS(pool.add_ref(0), "BlockPool: block 0 is shared, but it is free",
                       std::logic_error);
  for (const int32_t unknown : {-1, 3, INT32_MAX}) {
    const auto message = fmt::format("BlockPool: there is no block {}, the pool has 3", unknown);
    CHECK_THROWS_WITH_AS(pool.release(unknown), message.c_str(), std::out_of_range);
    CHECK_THROWS_WITH_AS(pool.add_ref(unknown), message.c_str(), std::out_of_range);
    CHECK_THROWS_WITH_AS(pool.ref_cnt(unknown), message.c_str(), std::out_of_range);
  }
  CHECK(pool.num_free() == 3);
  CHECK(pool.num_references() == 0);
}

TEST_CASE("unknown sequences and impossible lengths are refused and change nothing") {
  BlockManager manager(8, 4);
  const int a = new_sequence(manager, 6);
  const int b = manager.fork(a);
  manager.free_sequence(b);
  const std::string before = state_of(manager);
  for (const int unknown : {b, -1, 99}) {
    const auto message = fmt::format("BlockManager: there is no sequence {}", unknown);
    const Growth growths[] = {{.seq = a, .num_tokens = 5}, {.seq = unknown, .num_tokens = 1}};
    CHECK_THROWS_WITH_AS(manager.append(growths), message.c_str(), std::out_of_range);
    CHECK_THROWS_WITH_AS(manager.fork(unknown), message.c_str(), std::out_of_range);
    CHECK_THROWS_WITH_AS(manager.free_sequence(unknown), message.c_str(), std::out_of_range);
    CHECK_THROWS_WITH_AS(manager.table(unknown), message.c_str(), std::out_of_range);
  }
  CHECK_THROWS_AS(append(manager, a, -1), std::invalid_argument);
  const Growth twice[] = {{.seq = a, .num_tokens = 1}, {.seq = a, .num_tokens = 1}};
  CHECK_THROWS_WITH_AS(manager.append(twice), "BlockManager: sequence 0 is named twice",
                       std::invalid_argument);
  CHECK(state_of(manager) == before);
  CHECK(manager.fork(a) != b);  // a number is never given again
}

TEST_CASE("fork with a half-full tail: both append and exactly one copy is made") {
  Memory memory(8, 4);
  BlockManager& manager = memory.manager;
  const int a = manager.add_sequence();
  memory.write(a, "once a");
  const int b = manager.fork(a);
  CHECK(manager.num_copies() == 0);
  CHECK(manager.pool().num_used() == 2);
  CHECK(manager.pool().num_shared() == 2);
  memory.write(b, "n owl");
  memory.write(a, " fox");
  CHECK(memory.read(a) == "once a fox");
  CHECK(memory.read(b) == "once an owl");
  CHECK(manager.num_copies() == 1);
  CHECK(manager.pool().num_shared() == 1);  // "once"
  manager.check();
}

TEST_CASE("in one append the last holder of a tail keeps it") {
  Memory memory(16, 4);
  BlockManager& manager = memory.manager;
  const int a = manager.add_sequence();
  memory.write(a, "abcde");
  const int32_t tail = manager.table(a).block_ids().back();
  std::vector<Growth> growths{{.seq = a, .num_tokens = 1}};
  for (int i = 0; i < 3; ++i) growths.push_back({.seq = manager.fork(a), .num_tokens = 1});
  std::ranges::reverse(growths);
  CHECK(manager.blocks_to_append(growths) == 3);
  REQUIRE(manager.append(growths));
  CHECK(manager.num_copies() == 3);
  CHECK(memory.calls == 1);  // all copies in one call
  CHECK(manager.table(growths[3].seq).block_ids().back() == tail);
  CHECK(manager.pool().ref_cnt(tail) == 1);
  for (int i = 0; i < 3; ++i) {  // new blocks in the order of `growths`
    CHECK(manager.table(growths[i].seq).block_ids().back() == tail + 1 + i);
  }
  for (const Growth& growth : growths) CHECK(memory.read(growth.seq).substr(0, 5) == "abcde");
  manager.check();
}

TEST_CASE("a fork at a block boundary copies nothing") {
  Memory memory(8, 4);
  BlockManager& manager = memory.manager;
  const int a = manager.add_sequence();
  memory.write(a, "abcdefgh");
  const int b = manager.fork(a);
  memory.write(a, "1");
  memory.write(b, "22222");
  CHECK(manager.num_copies() == 0);
  CHECK(memory.calls == 0);
  CHECK(manager.pool().num_used() == 5);
  CHECK(manager.pool().num_shared() == 2);
  CHECK(memory.read(a) == "abcdefgh1");
  CHECK(memory.read(b) == "abcdefgh22222");
}

TEST_CASE("too few free blocks: the answer is no and nothing has changed") {
  Memory memory(4, 4);
  BlockManager& manager = memory.manager;
  const int a = manager.add_sequence();
  memory.write(a, "abcdef");
  const int b = manager.fork(a);
  const std::string before = state_of(manager);
  const auto refused = [&](std::vector<Growth> growths, int64_t needed) {
    CHECK(manager.blocks_to_append(growths) == needed);
    CHECK_FALSE(manager.append(growths));
    CHECK(state_of(manager) == before);
  };
  refused({{b, 11}}, 1 + 3);  // the copy and one block would fit, the second does not
  refused({{a, 3}, {b, 3}}, 3);
  CHECK(append(manager, b, 6));  // exactly what is there
  CHECK(memory.calls == 1);
  CHECK_FALSE(append(manager, a, 3));
  manager.free_sequence(b);
  memory.write(a, "!");  // the only holder now: no copy needed
  CHECK(memory.read(a) == "abcdef!");
  CHECK(manager.num_copies() == 1);
}

TEST_CASE("sums of blocks that no int can hold are too many and the number is right") {
  BlockManager manager(64, 1);
  const int a = new_sequence(manager, 3), b = manager.fork(a), c = manager.fork(a);
  constexpr int kMost = INT32_MAX - 3;
  const Growth growths[] = {{a, 10}, {b, kMost}, {c, kMost}};
  CHECK(manager.blocks_to_append(growths) == 10 + 2 * int64_t{kMost});
  CHECK_FALSE(manager.append(growths));
  CHECK_THROWS_AS(append(manager, a, kMost + 1), std::invalid_argument);
  CHECK(manager.table(a).num_tokens() == 3);
}

TEST_CASE("a copy that throws leaves everything as it was") {
  bool fail = true;
  BlockManager manager(8, 4, [&](std::span<const BlockCopy>) {
    if (fail) throw 7;  // whatever it is
  });
  const int a = new_sequence(manager, 6);
  const int b = manager.fork(a), c = manager.fork(a);
  const std::string before = state_of(manager);
  const Growth all[] = {
      {.seq = a, .num_tokens = 9}, {.seq = b, .num_tokens = 1}, {.seq = c, .num_tokens = 1}};
  CHECK_THROWS_AS(manager.append(all), int);
  CHECK(state_of(manager) == before);
  fail = false;
  REQUIRE(manager.append(all));
  INFO("blocks 2 and 3 were given back, and come again in the same order");
  CHECK(manager.table(a).block_ids()[1] == 2);
  CHECK(manager.table(b).block_ids()[1] == 3);
}

TEST_CASE("a manager without bytes to move counts its copies all the same") {
  BlockManager manager(8, 4);
  const int b = manager.fork(new_sequence(manager, 6));
  REQUIRE(append(manager, b, 1));
  CHECK(manager.num_copies() == 1);
  CHECK(manager.table(b).block_ids().back() == 2);
  REQUIRE(append(manager, manager.fork(b), 1));
  CHECK(manager.num_copies() == 2);
}

TEST_CASE("the source is still held while it is copied") {
  std::vector<int> held;
  const BlockManager* copying = nullptr;
  BlockManager manager(8, 4, [&](std::span<const BlockCopy> copies) {
    for (const BlockCopy& copy : copies) {
      held = {copying->pool().ref_cnt(copy.source), copying->pool().ref_cnt(copy.destination)};
      CHECK(copying->table(1).block_ids().back() == copy.source);  // repointed afterwards
    }
  });
  copying = &manager;
  const int a = new_sequence(manager, 3);
  const int b = manager.fork(a);
  REQUIRE(append(manager, b, 1));
  CHECK(held == std::vector<int>{2, 1});  // the share is released afterwards
  CHECK(manager.pool().ref_cnt(manager.table(a).block_ids()[0]) == 1);
}

TEST_CASE("blocks come back last block first") {
  BlockManager manager(8, 4);
  const int a = new_sequence(manager, 12);
  const std::string before = fmt::format("{}", manager.table(a).block_ids());
  manager.free_sequence(a);
  const int b = new_sequence(manager, 12);
  CHECK(fmt::format("{}", manager.table(b).block_ids()) == before);
}
