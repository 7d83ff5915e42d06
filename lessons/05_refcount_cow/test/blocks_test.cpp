// Tests of lesson 05's bookkeeping: who holds which block, and what a write may touch.

#include "block_manager.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "block_pool.h"

namespace {

using lesson05::BlockCopy;
using lesson05::BlockManager;
using lesson05::BlockPool;
using lesson05::Growth;

/// Everything that can be seen of a manager, to compare.
struct Snapshot {
  std::vector<int> seqs;
  std::vector<int> tokens;
  std::vector<std::vector<int32_t>> tables;
  std::vector<int> ref_cnts;
  int num_free;
  int num_shared;
  int64_t num_references;
  int64_t num_copies;
  bool operator==(const Snapshot&) const = default;
};

Snapshot snapshot(const BlockManager& manager) {
  Snapshot s;
  for (const auto& [seq, table] : manager.tables()) {
    s.seqs.push_back(seq);
    s.tokens.push_back(table.num_tokens());
    s.tables.emplace_back(table.block_ids().begin(), table.block_ids().end());
  }
  for (int32_t id = 0; id < manager.pool().num_blocks(); ++id) {
    s.ref_cnts.push_back(manager.pool().ref_cnt(id));
  }
  s.num_free = manager.pool().num_free();
  s.num_shared = manager.pool().num_shared();
  s.num_references = manager.pool().num_references();
  s.num_copies = manager.num_copies();
  manager.check();
  return s;
}

bool append(BlockManager& manager, int seq, int num_tokens) {
  const Growth growth{.seq = seq, .num_tokens = num_tokens};
  return manager.append({&growth, 1});
}

int new_sequence(BlockManager& manager, int num_tokens) {
  const int seq = manager.add_sequence();
  REQUIRE(append(manager, seq, num_tokens));
  return seq;
}

/// A manager whose blocks hold bytes: slot s is `bytes[s]`.
struct Memory {
  Memory(int num_blocks, int block_size)
      : bytes(static_cast<size_t>(num_blocks * block_size), ' '),
        manager(num_blocks, block_size, [this](std::span<const BlockCopy> copies) {
          ++calls;
          const auto size = static_cast<std::ptrdiff_t>(manager.block_size());
          for (const BlockCopy& copy : copies) {
            std::copy_n(bytes.begin() + copy.source * size, size,
                        bytes.begin() + copy.destination * size);
          }
        }) {}
  void write(int seq, const std::string& text) {
    REQUIRE(append(manager, seq, static_cast<int>(text.size())));
    const auto& table = manager.table(seq);
    for (size_t i = 0; i < text.size(); ++i) {
      const int token = table.num_tokens() - static_cast<int>(text.size() - i);
      bytes[static_cast<size_t>(table.slot(token))] = text[i];
    }
  }
  std::string read(int seq) const {
    std::string text;
    const auto& table = manager.table(seq);
    for (int t = 0; t < table.num_tokens(); ++t) {
      text += bytes[static_cast<size_t>(table.slot(t))];
    }
    return text;
  }
  std::string bytes;
  int calls = 0;
  BlockManager manager;
};

template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("the pool names what is wrong and stays as it was") {
  CHECK_THROWS_AS(BlockPool(0), std::invalid_argument);
  BlockPool pool(3);
  const int32_t id = pool.allocate().value();
  pool.add_ref(id);
  CHECK(pool.num_shared() == 1);
  CHECK(pool.release(id) == 1);
  CHECK(pool.release(id) == 0);
  for (const auto& wrong :
       {+[](BlockPool& p) { p.release(0); }, +[](BlockPool& p) { p.add_ref(0); }}) {
    CHECK_THROWS_AS(wrong(pool), std::logic_error);
    CHECK(message_of([&] { wrong(pool); }).find("block 0") != std::string::npos);
  }
  for (const int32_t unknown : {-1, 3, INT32_MAX}) {
    CHECK_THROWS_AS(pool.release(unknown), std::out_of_range);
    CHECK_THROWS_AS(pool.add_ref(unknown), std::out_of_range);
    CHECK_THROWS_AS(pool.ref_cnt(unknown), std::out_of_range);
    CHECK(message_of([&] { pool.release(unknown); }).find(std::to_string(unknown)) !=
          std::string::npos);
  }
  CHECK(pool.num_free() == 3);
  CHECK(pool.num_references() == 0);
  CHECK(pool.num_shared() == 0);
}

TEST_CASE("free twice and fork or append or free of an unknown sequence change nothing") {
  BlockManager manager(8, 4);
  const int a = new_sequence(manager, 6);
  const int b = manager.fork(a);
  manager.free_sequence(b);
  const Snapshot before = snapshot(manager);
  for (const int unknown : {b, -1, 99}) {
    const std::string name = "sequence " + std::to_string(unknown);
    CHECK_THROWS_AS(manager.free_sequence(unknown), std::out_of_range);
    CHECK_THROWS_AS(manager.fork(unknown), std::out_of_range);
    CHECK_THROWS_AS(manager.make_last_block_writable(unknown), std::out_of_range);
    CHECK_THROWS_AS(manager.table(unknown), std::out_of_range);
    const Growth growths[] = {{.seq = a, .num_tokens = 5}, {.seq = unknown, .num_tokens = 1}};
    CHECK_THROWS_AS(manager.append(growths), std::out_of_range);
    CHECK_THROWS_AS(append(manager, a, -1), std::invalid_argument);
    CHECK(message_of([&] { manager.fork(unknown); }).find(name) != std::string::npos);
    CHECK(snapshot(manager) == before);
  }
  CHECK(manager.fork(a) != b);  // a number is never given again
}

TEST_CASE("forks freed in every order leave no reference") {
  std::vector<int> order{0, 1, 2, 3};
  do {
    BlockManager manager(16, 4);
    std::vector<int> seqs{new_sequence(manager, 10)};
    for (int i = 0; i < 3; ++i) seqs.push_back(manager.fork(seqs.back()));
    REQUIRE(append(manager, seqs[1], 5));
    REQUIRE(append(manager, seqs[3], 1));
    for (const int i : order) {
      manager.free_sequence(seqs[static_cast<size_t>(i)]);
      manager.check();
    }
    CHECK(manager.pool().num_free() == 16);
    CHECK(manager.pool().num_references() == 0);
    CHECK(manager.pool().num_shared() == 0);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("fork with a half full tail: both append and exactly one copy is made") {
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
  CHECK(memory.calls == 1);
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
  CHECK(manager.blocks_to_append(growths) == 3);
  REQUIRE(manager.append(growths));
  CHECK(manager.num_copies() == 3);
  CHECK(memory.calls == 1);  // all copies in one call
  CHECK(manager.table(growths[3].seq).block_ids().back() == tail);
  CHECK(manager.pool().ref_cnt(tail) == 1);
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

TEST_CASE("copy-on-write with the pool full says no and changes nothing") {
  Memory memory(2, 4);
  BlockManager& manager = memory.manager;
  const int a = manager.add_sequence();
  memory.write(a, "abcdef");
  const int b = manager.fork(a);
  const Snapshot before = snapshot(manager);
  const std::string bytes = memory.bytes;
  CHECK_FALSE(append(manager, b, 1));
  CHECK_FALSE(append(manager, a, 1));
  CHECK_FALSE(manager.make_last_block_writable(b));
  CHECK(snapshot(manager) == before);
  CHECK(memory.bytes == bytes);
  manager.free_sequence(a);
  memory.write(b, "!");  // the only holder now: no copy needed
  CHECK(memory.read(b) == "abcdef!");
  CHECK(manager.num_copies() == 0);
}

TEST_CASE("the pool runs out midway: all or nothing") {
  Memory memory(4, 4);
  BlockManager& manager = memory.manager;
  const int a = manager.add_sequence();
  memory.write(a, "abcdef");
  const int b = manager.fork(a);
  const Snapshot before = snapshot(manager);
  // The copy and one block would fit, the second does not.
  CHECK_FALSE(append(manager, b, 7 + 4));
  const Growth both[] = {{.seq = a, .num_tokens = 3}, {.seq = b, .num_tokens = 3}};
  CHECK(manager.blocks_to_append(both) == 3);
  CHECK_FALSE(manager.append(both));
  CHECK(snapshot(manager) == before);
  CHECK(memory.calls == 0);
  CHECK(append(manager, b, 6));  // exactly what is there
  CHECK(manager.pool().num_free() == 0);
  CHECK_FALSE(append(manager, a, INT32_MAX - 6));
}

TEST_CASE("sums of blocks that no int can hold are too many, and the number is right") {
  BlockManager manager(64, 1);
  const int a = new_sequence(manager, 3), b = manager.fork(a), c = manager.fork(a);
  const Snapshot before = snapshot(manager);
  const Growth growths[] = {{.seq = a, .num_tokens = 10},
                            {.seq = b, .num_tokens = INT32_MAX - 3},
                            {.seq = c, .num_tokens = INT32_MAX - 3}};
  CHECK(manager.blocks_to_append(growths) == 10 + 2 * int64_t{INT32_MAX - 3});
  CHECK_FALSE(manager.append(growths));
  const Growth twice[] = {{.seq = b, .num_tokens = INT32_MAX - 3},
                          {.seq = b, .num_tokens = INT32_MAX - 3}};
  CHECK_THROWS_AS(manager.append(twice), std::invalid_argument);
  CHECK(snapshot(manager) == before);
}

TEST_CASE("lengths 0 1 bs-1 bs bs+1 k*bs: tables and last blocks of forks are exact") {
  for (const int size : {1, 2, 4, 16}) {
    for (const int length : {0, 1, size - 1, size, size + 1, 3 * size}) {
      for (const int more : {0, 1, size - 1, size, size + 1, 3 * size}) {
        CAPTURE(size);
        CAPTURE(length);
        CAPTURE(more);
        BlockManager manager(32, size);
        const int a = new_sequence(manager, length);
        const int b = manager.fork(a);
        REQUIRE(append(manager, b, more));
        manager.check();
        const auto& table = manager.table(b);
        CHECK(table.num_tokens() == length + more);
        CHECK(table.num_blocks() == (length + more + size - 1) / size);
        const int fill = (length + more) % size;
        CHECK(table.last_block_fill() == (length + more == 0 ? 0 : fill == 0 ? size : fill));
        CHECK(manager.num_copies() == (more > 0 && length % size != 0 ? 1 : 0));
        CHECK(manager.table(a).num_tokens() == length);
      }
    }
  }
}

TEST_CASE("a copier that throws leaves everything as it was") {
  bool fail = true;
  BlockManager manager(8, 4, [&](std::span<const BlockCopy>) {
    if (fail) throw std::runtime_error("no device");
  });
  const int a = new_sequence(manager, 6);
  const int b = manager.fork(a);
  const Snapshot before = snapshot(manager);
  const Growth both[] = {{.seq = a, .num_tokens = 9}, {.seq = b, .num_tokens = 1}};
  CHECK_THROWS_AS(manager.append(both), std::runtime_error);
  CHECK(snapshot(manager) == before);
  CHECK_THROWS_AS(manager.make_last_block_writable(b), std::runtime_error);
  CHECK(snapshot(manager) == before);
  fail = false;
  const int32_t next = manager.pool().num_blocks() - manager.pool().num_free();
  REQUIRE(manager.append(both));
  CHECK(manager.table(a).block_ids()[1] == next);  // the block that was given back comes again
}

TEST_CASE("the source is still held while it is copied") {
  int copies = 0;
  BlockManager* books = nullptr;
  BlockManager manager(8, 4, [&](std::span<const BlockCopy> list) {
    for (const BlockCopy& copy : list) {
      ++copies;
      CHECK(books->pool().ref_cnt(copy.source) == 2);  // the share is released afterwards
      CHECK(books->pool().ref_cnt(copy.destination) == 1);
      CHECK(books->table(1).block_ids().back() == copy.source);  // repointed afterwards
    }
  });
  books = &manager;
  const int a = new_sequence(manager, 3);
  const int b = manager.fork(a);
  REQUIRE(manager.make_last_block_writable(b));
  CHECK(copies == 1);
  manager.free_sequence(b);
  CHECK(manager.make_last_block_writable(a));  // its own already
  CHECK(copies == 1);
  const int empty = manager.add_sequence();
  CHECK_THROWS_AS(manager.make_last_block_writable(empty), std::logic_error);
}

TEST_CASE("a full shared last block is copied by a write and not by an append") {
  Memory memory(8, 4);
  BlockManager& manager = memory.manager;
  const int a = manager.add_sequence();
  memory.write(a, "abcd");
  const int b = manager.fork(a);
  REQUIRE(manager.make_last_block_writable(b));
  memory.bytes[static_cast<size_t>(manager.table(b).slot(3))] = 'X';
  CHECK(memory.read(a) == "abcd");
  CHECK(memory.read(b) == "abcX");
  CHECK(manager.num_copies() == 1);
}

TEST_CASE("a forgotten fork costs its blocks until it is freed") {
  BlockManager manager(4, 4);
  const int a = new_sequence(manager, 16);
  const int b = manager.fork(a);
  manager.free_sequence(a);
  CHECK(manager.pool().num_free() == 0);
  CHECK(manager.pool().num_shared() == 0);
  manager.free_sequence(b);
  CHECK(manager.pool().num_free() == 4);
}

TEST_CASE("blocks come back last block first") {
  BlockManager manager(8, 4);
  const int a = new_sequence(manager, 12);
  const std::vector<int32_t> ids(manager.table(a).block_ids().begin(),
                                 manager.table(a).block_ids().end());
  manager.free_sequence(a);
  const int b = new_sequence(manager, 12);
  const auto again = manager.table(b).block_ids();
  CHECK(std::equal(ids.begin(), ids.end(), again.begin(), again.end()));
}

TEST_CASE("the examples of the text are what the manager counts") {
  const auto blocks = [](int prompt, int more) {
    BlockManager manager(64, 16);
    std::vector<Growth> beams{{.seq = new_sequence(manager, prompt), .num_tokens = more}};
    for (int i = 0; i < 3; ++i) {
      beams.push_back({.seq = manager.fork(beams[0].seq), .num_tokens = more});
    }
    REQUIRE(manager.append(beams));
    return std::pair(int64_t{manager.pool().num_used()}, manager.num_blocks_without_sharing());
  };
  CHECK(blocks(256, 0) == std::pair(int64_t{16}, int64_t{64}));
  CHECK(blocks(64, 10) == std::pair(int64_t{8}, int64_t{20}));
  CHECK(blocks(64, 20) == std::pair(int64_t{12}, int64_t{24}));
}
