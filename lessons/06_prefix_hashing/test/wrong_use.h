#pragma once

// Calls that every pool refuses: for the pools of this lesson and the next one.

#include <doctest/doctest.h>

#include <stdexcept>

#include "requests.h"

namespace lesson06_test {

/// Each error has its type, and nothing has changed then. The pool has 4 blocks of 4 tokens, all
/// free; the lowest id is `a`.
inline void check_wrong_use(lesson06::CachePool& pool, int32_t a) {
  Ids two(2), five(5, -5);
  REQUIRE(pool.get_new_blocks(two));
  CHECK(two == Ids{a, a + 1});
  CHECK_FALSE(pool.get_new_blocks(five));
  CHECK(five == Ids(5, -5));
  const Ids free_one{a, a + 3}, twice{a, a}, unknown{a + 1, a + 4};
  CHECK_THROWS_AS(pool.free_blocks(free_one), std::logic_error);
  CHECK(pool.ref_cnt(a) == 1);
  CHECK_THROWS_AS(pool.free_blocks(twice), std::logic_error);
  pool.touch(Ids{a});  // two tables hold it, and each names it once
  CHECK_THROWS_AS(pool.free_blocks(twice), std::logic_error);
  CHECK(pool.ref_cnt(a) == 2);
  pool.free_blocks(Ids{a});
  CHECK_THROWS_WITH_AS(pool.free_blocks(unknown), doctest::Contains("no block"), std::out_of_range);
  CHECK_THROWS_WITH_AS(pool.touch(unknown), doctest::Contains("no block"), std::out_of_range);
  CHECK(pool.ref_cnt(a) == 1);
  CHECK(pool.ref_cnt(a + 1) == 1);
  const Tokens tokens = range(0, 4), fewer = range(0, 3);
  const lesson06::BlockKey key{.hash = 1, .parent = {}, .tokens = tokens, .extra_keys = {}};
  const lesson06::BlockKey partly{.hash = 1, .parent = {}, .tokens = fewer, .extra_keys = {}};
  CHECK_THROWS_WITH_AS(pool.cache_full_block(a + 3, key), doctest::Contains("it is free"),
                       std::logic_error);
  CHECK_THROWS_AS(pool.cache_full_block(a, partly), std::invalid_argument);
  pool.cache_full_block(a, key);
  CHECK_THROWS_AS(pool.cache_full_block(a, key), std::logic_error);
  CHECK(pool.index().size() == 1);
  pool.check();
}

}  // namespace lesson06_test
