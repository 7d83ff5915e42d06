// The text's further task, once it is begun: Policy::kSecondChance (program/replay.h).

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/todo.h"
#include "program/replay.h"

namespace {

using lesson07::Policy;
using lesson07::ReplayResult;

template <class P>
constexpr P second_chance() {
  if constexpr (requires { P::kSecondChance; }) {
    return P::kSecondChance;
  } else {
    KV_TODO("give Policy a kSecondChance");
  }
}

/// Each letter is a prompt of three tokens: a full block that can be found, and one token more.
ReplayResult play(const std::string& letters, int num_blocks, Policy policy) {
  std::vector<lesson07::TraceRequest> trace;
  for (const char letter : letters) {
    trace.push_back({.prompt = std::vector<int32_t>(3, letter), .answer = {0}});
  }
  return lesson07::replay(trace, num_blocks, 2, policy);
}

}  // namespace

TEST_CASE("second chance: a block that was hit is passed over") {
  // A was found once. C needs two blocks, and A's is the second free one.
  CHECK(play("AABCA", 4, second_chance<Policy>()).found == 4);
  CHECK(play("AABCA", 4, Policy::kLru).found == 2);
}

TEST_CASE("second chance: a block is passed over once, and not again without a hit") {
  CHECK(play("AABCDA", 4, second_chance<Policy>()).found == 2);
  CHECK(play("AABCABCA", 4, second_chance<Policy>()).found == 6);
}

TEST_CASE("second chance: if all free blocks were hit, one is taken all the same") {
  const ReplayResult result = play("AABA", 2, second_chance<Policy>());
  CHECK(result.refused == 0);
  CHECK(result.found == 2);
}

TEST_CASE("second chance stands in the table with a name of its own") {
  const Policy policy = second_chance<Policy>();
  CHECK(std::ranges::count(lesson07::kPolicies, policy) == 1);
  for (const Policy other : lesson07::kPolicies) {
    CHECK((other == policy) ==
          (std::string(lesson07::name_of(other)) == lesson07::name_of(policy)));
  }
}
