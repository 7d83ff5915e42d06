// Tests of the free queue: a list through the blocks themselves.

#include <doctest/doctest.h>

#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "free_block_queue.h"
#include "queue_of.h"

namespace {

using lesson07::FreeBlockQueue;
using lesson07::KvBlock;
using lesson07_test::ids_of;
using Ids = std::vector<int32_t>;

constexpr int kMany = 300'000;  // with a search for each, minutes

/// Blocks 1, 2, ... n, none of them in a queue.
std::vector<KvBlock> make_blocks(int n) {
  std::vector<KvBlock> blocks(n);
  for (int32_t id = 1; id <= n; ++id) blocks[id - 1].id = id;
  return blocks;
}

/// "end<3>1": block 3 has a sentinel before it and block 1 after it.
std::string neighbours(const KvBlock& block) {
  const auto name = [](const KvBlock* other) {
    if (other == nullptr) return std::string("null");
    return other->id == 0 ? "end" : std::to_string(other->id);  // a sentinel has no number
  };
  return name(block.prev_free) + "<" + std::to_string(block.id) + ">" + name(block.next_free);
}

}  // namespace

TEST_CASE("a block is put at the back or in front, and its neighbours know it") {
  auto blocks = make_blocks(3);
  KvBlock &one = blocks[0], &two = blocks[1], &three = blocks[2];
  FreeBlockQueue queue;
  INFO("before<block>after; end: a sentinel");
  queue.append(one);
  REQUIRE(neighbours(one) == "end<1>end");
  queue.append(two);
  REQUIRE(neighbours(one) == "end<1>2");
  REQUIRE(neighbours(two) == "1<2>end");
  queue.prepend(three);
  REQUIRE(neighbours(three) == "end<3>1");
  REQUIRE(neighbours(one) == "3<1>2");
  CHECK(queue.size() == 3);
  CHECK(ids_of(queue) == Ids{3, 1, 2});
}

TEST_CASE("a block goes into a queue of 300,000 without a search") {
  auto blocks = make_blocks(kMany);
  FreeBlockQueue queue;
  for (KvBlock& block : blocks) queue.append(block);
  CHECK(queue.size() == kMany);
}

TEST_CASE("a block that is in the queue already is refused and named") {
  auto blocks = make_blocks(2);
  FreeBlockQueue queue;
  for (KvBlock& block : blocks) queue.append(block);
  CHECK_THROWS_WITH_AS(queue.append(blocks[0]), doctest::Contains("1"), std::logic_error);
  CHECK_THROWS_WITH_AS(queue.prepend(blocks[1]), doctest::Contains("2"), std::logic_error);
  CHECK(ids_of(queue) == Ids{1, 2});
  CHECK(queue.size() == 2);
}

TEST_CASE("a block leaves from the middle, from the front and from the back") {
  auto blocks = make_blocks(5);
  FreeBlockQueue queue;
  for (KvBlock& block : blocks) queue.append(block);
  INFO("before<block>after; end: a sentinel");
  queue.remove(blocks[2]);
  REQUIRE(neighbours(blocks[1]) == "1<2>4");
  REQUIRE(neighbours(blocks[3]) == "2<4>5");
  CHECK(neighbours(blocks[2]) == "null<3>null");
  queue.remove(blocks[0]);
  REQUIRE(neighbours(blocks[1]) == "end<2>4");
  queue.remove(blocks[4]);
  REQUIRE(neighbours(blocks[3]) == "2<4>end");
  CHECK(ids_of(queue) == Ids{2, 4});
  CHECK(queue.size() == 2);
  CHECK_FALSE(FreeBlockQueue::contains(blocks[2]));
}

TEST_CASE("a block leaves a queue of 300,000 without a search") {
  auto blocks = make_blocks(kMany);
  FreeBlockQueue queue;
  for (KvBlock& block : blocks) queue.prepend(block);
  for (KvBlock& block : blocks) queue.remove(block);  // each is the last one
  CHECK(queue.empty());
}

TEST_CASE("a block that is not in the queue is refused and named") {
  auto blocks = make_blocks(2);
  FreeBlockQueue queue;
  queue.append(blocks[0]);
  CHECK_THROWS_WITH_AS(queue.remove(blocks[1]), doctest::Contains("2"), std::logic_error);
  CHECK(queue.size() == 1);
  queue.remove(blocks[0]);
  CHECK_THROWS_WITH_AS(queue.remove(blocks[0]), doctest::Contains("1"), std::logic_error);
  CHECK(queue.empty());
}

TEST_CASE("the front block is taken, until none is left") {
  auto blocks = make_blocks(3);
  FreeBlockQueue queue;
  for (KvBlock& block : blocks) queue.append(block);
  CHECK(queue.popleft().id == 1);
  CHECK(ids_of(queue) == Ids{2, 3});
  CHECK(queue.popleft().id == 2);
  CHECK(queue.popleft().id == 3);
  CHECK(queue.size() == 0);
  CHECK_THROWS_AS(queue.popleft(), std::logic_error);
  queue.append(blocks[1]);
  CHECK(queue.popleft().id == 2);
}

// vLLM #9972: why its free queue is a linked list and not a deque.
TEST_CASE("the queue does what a deque does, in ten thousand random steps") {
  auto blocks = make_blocks(20);
  FreeBlockQueue queue;
  Ids model;
  std::mt19937 rng(3);
  for (int step = 0; step < 10'000; ++step) {
    KvBlock& block = blocks[rng() % blocks.size()];
    if (std::erase(model, block.id) > 0) {  // from the middle, or from an end
      queue.remove(block);
    } else if (rng() % 2 == 0) {
      queue.append(block);
      model.push_back(block.id);
    } else {
      queue.prepend(block);
      model.insert(model.begin(), block.id);
    }
    REQUIRE(ids_of(queue) == model);
    REQUIRE(queue.size() == model.size());
  }
}
