// The text's further task, once it is begun: FreeOrder::kSecondChance (block_pool.h).

#include <doctest/doctest.h>

#include <string>

#include "block_pool.h"
#include "common/todo.h"
#include "lessons/06_prefix_hashing/test/requests.h"

namespace {

using lesson07::BlockPool;
using lesson07::FreeOrder;

template <class Order>
constexpr Order second_chance() {
  if constexpr (requires { Order::kSecondChance; }) {
    return Order::kSecondChance;
  } else {
    KV_TODO("give FreeOrder a kSecondChance");
  }
}

/// Tokens that are found. Each letter is a prompt of three tokens, which runs and ends: a full
/// block that can be found, and one token more.
int play(const std::string& letters, int num_blocks, FreeOrder order) {
  BlockPool pool(num_blocks, 2, order);
  lesson07::KvCacheManager manager(pool);
  int found = 0;
  for (const char letter : letters) {
    found += lesson06_test::run_and_free(manager, lesson06_test::Tokens(3, letter));
  }
  return found;
}

}  // namespace

TEST_CASE("second chance: a block that was hit is passed over") {
  // A was found once. C needs two blocks, and A's is the second free one.
  CHECK(play("AABCA", 4, second_chance<FreeOrder>()) == 4);
  CHECK(play("AABCA", 4, FreeOrder::kAppend) == 2);
}

TEST_CASE("second chance: a block is passed over once, and not again without a hit") {
  CHECK(play("AABCDA", 4, second_chance<FreeOrder>()) == 2);
  CHECK(play("AABCABCA", 4, second_chance<FreeOrder>()) == 6);
}

TEST_CASE("second chance: if all free blocks were hit, one is taken all the same") {
  CHECK(play("AABA", 2, second_chance<FreeOrder>()) == 2);
}
